// SPDX-License-Identifier: Apache-2.0
// Metrics and health over HTTP, for `init`, `watch` and `coordinator`: as a child that has no rights, so that no
// request is parsed by a process that can load modules or drain nodes.
#pragma once
#include "cmd/common/common.h"
#include "service/service_child.h"

struct listen_values {
	char *listen, *certificate, *key;
};
// Rows of an option table for the values of that type, which hold a struct listen_values as member.
#define LISTEN_OPTS(type, member)                                                                                     \
	{ "listen",                                                                                                   \
	  0,                                                                                                          \
	  "[ADDRESS:]PORT",                                                                                           \
	  "KMODSMITH_LISTEN",                                                                                         \
	  OPT_STR,                                                                                                    \
	  offsetof(type, member) + offsetof(struct listen_values, listen),                                            \
	  "serve /metrics, /healthz and /readyz: PORT of this machine alone, :PORT of every address; default none" }, \
		{ "tls-cert",                                                                                         \
		  0,                                                                                                  \
		  "FILE",                                                                                             \
		  "KMODSMITH_TLS_CERT",                                                                               \
		  OPT_STR,                                                                                            \
		  offsetof(type, member) + offsetof(struct listen_values, certificate),                               \
		  "with --listen: serve HTTPS with this certificate and those that follow it; PEM; a renewed one is " \
		  "served without a restart" },                                                                       \
	{                                                                                                             \
		"tls-key", 0, "FILE", "KMODSMITH_TLS_KEY", OPT_STR,                                                   \
			offsetof(type, member) + offsetof(struct listen_values, key),                                 \
			"with --listen: the key of --tls-cert; PEM"                                                   \
	}

#define SERVED_METRICS "coordinator.prom" // what a coordinator writes for it, in the directory of --pulse-dir

// tables, values: options that are passed on to the child, as far as it knows them. Nothing without --listen. E_USAGE
// before anything is started.
int serve_child_open(const struct listen_values *v, const struct opt *const *tables, const void *values,
		     struct service_child *ret, struct err *err);
