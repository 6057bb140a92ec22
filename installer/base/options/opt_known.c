// SPDX-License-Identifier: Apache-2.0
#include "base/options/opt_known.h"

#include "base/options/nearest.h"

#include <ctype.h>

static const char PREFIX[] = "KMODSMITH_";

static void keys_of(const struct opt *o, struct strv *ret)
{
	if (!strv_has(ret, o->name))
		strv_add(ret, str_dup(o->name));
}

static void variables_of(const struct opt *o, struct strv *ret)
{
	if (o->env && str_starts(o->env, PREFIX) && !strv_has(ret, o->env))
		strv_add(ret, str_dup(o->env));
}

static void collect_names(const struct cmd *const *all, void (*add)(const struct opt *o, struct strv *ret),
			  struct strv *ret)
{
	for (; *all; all++)
		for (size_t t = 0; t < ARRAY_SIZE((*all)->opts) && (*all)->opts[t]; t++)
			for (const struct opt *o = (*all)->opts[t]; o->name; o++)
				add(o, ret);
}

static int refuse_name(const char *what, const char *word, const struct strv *names, struct err *err)
{
	const char *near = nearest(word, names);
	return err_set(err, E_CONFIG, "unknown %s '%s'%s%s%s", what, word, near ? "; did you mean '" : "",
		       near ? near : "", near ? "'?" : "");
}

int opt_check_key(const struct cmd *const *all, const char *key, struct err *err)
{
	auto_strv struct strv names = { 0 };
	collect_names(all, keys_of, &names);
	return strv_has(&names, key) ? 0 : refuse_name("key", key, &names, err);
}

// "_80_TCP", "_80_TCP_ADDR": what follows NAME_PORT of a service's port.
static bool is_port_rest(const char *rest)
{
	static const char *const protocols[] = { "TCP", "UDP", "SCTP" }, *const ends[] = { "", "_PROTO", "_PORT",
											   "_ADDR" };
	if (*rest != '_' || !isdigit((unsigned char)rest[1]))
		return false;
	rest += 1 + strspn(rest + 1, "0123456789");
	for (size_t p = 0; p < ARRAY_SIZE(protocols); p++)
		for (size_t e = 0; e < ARRAY_SIZE(ends); e++) {
			auto_str char *wanted = str_fmt("_%s%s", protocols[p], ends[e]);
			if (str_eq(rest, wanted))
				return true;
		}
	return false;
}

// kubernetes.io/docs/concepts/services-networking/service, "Environment variables": {NAME}_SERVICE_HOST,
// {NAME}_SERVICE_PORT, {NAME}_SERVICE_PORT_{PORT'S NAME}, and Docker's links {NAME}_PORT=tcp://...,
// {NAME}_PORT_80_TCP...
static bool is_service_link(const char *name, const char *value)
{
	if (str_ends(name, "_SERVICE_HOST") || str_ends(name, "_SERVICE_PORT") || strstr(name, "_SERVICE_PORT_"))
		return true;
	if (str_ends(name, "_PORT") && strstr(value, "://"))
		return true;
	for (const char *at = strstr(name, "_PORT_"); at; at = strstr(at + 1, "_PORT_"))
		if (is_port_rest(at + strlen("_PORT")))
			return true;
	return false;
}

int opt_check_environment(const struct cmd *const *all, const char *const *others, struct err *err)
{
	auto_strv struct strv names = { 0 };
	for (; others && *others; others++)
		strv_add(&names, str_dup(*others));
	collect_names(all, variables_of, &names);
	for (char **variable = environ; variable && *variable; variable++) {
		const char *value = strchr(*variable, '=');
		if (!str_starts(*variable, PREFIX) || !value)
			continue;
		auto_str char *name = str_ndup(*variable, (size_t)(value - *variable));
		if (!strv_has(&names, name) && !is_service_link(name, value + 1))
			return refuse_name("environment variable", name, &names, err);
	}
	return 0;
}
