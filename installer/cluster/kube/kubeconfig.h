// SPDX-License-Identifier: Apache-2.0
// The address of the Kubernetes API and our credentials: in a pod its service account, elsewhere a kubeconfig.
//
// One context of a kubeconfig is used. Members that start a program (exec, auth-provider) or disable the check of the
// server's certificate are refused: an agent on every node must not depend on either. Facts: the fields of
// k8s.io/client-go/tools/clientcmd/api/v1 (types.go), the paths of the service account admission controller.
#pragma once
#include "base/file/root.h"

// The namespace of everything in deploy/, used by nothing else.
#define KUBE_NAMESPACE "kmodsmith"

struct kube_config {
	char *server;            // "https://10.0.0.1:443", without a slash at the end
	char *authorities;       // PEM; NULL = the system's
	char *certificate, *key; // PEM; NULL = none
	char *token;             // NULL = none, or of token_file
	char *token_file;        // read again when it changes; below token_root
	struct root token_root;
	char *namespace;      // KUBE_NAMESPACE unless configured
	unsigned deadline_ms; // upper limit of every call with its retries; 0 = none
};
#define KUBE_CONFIG_NONE ((struct kube_config){ .token_root = ROOT_NONE })

// Of the pod that we run in; kern: where its files are seen, env: its environment. 1 = read, 0 = not a pod with a
// service account. E_CONFIG: only part of one.
int kube_config_pod(const struct root *kern, char *const *env, struct kube_config *ret, struct err *err);
// path: as typed; context: NULL = the current one. E_CONFIG names what is not supported.
int kube_config_file(const char *path, const char *context, struct kube_config *ret, struct err *err);
// Of that file, or with path NULL of our pod. 1 = read, 0 = there is neither.
int kube_config_find(const char *path, const struct root *kern, struct kube_config *ret, struct err *err);
void kube_config_done(struct kube_config *c);
#define auto_kube_config __attribute__((cleanup(kube_config_done)))
