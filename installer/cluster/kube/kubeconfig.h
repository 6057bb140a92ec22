// SPDX-License-Identifier: Apache-2.0
// Where the Kubernetes API is and who we are to it: of a pod, its service account; elsewhere a kubeconfig.
//
// Of a kubeconfig one context is taken. What would start a program (exec, auth-provider) or switch off the check of the
// server's certificate is refused: an agent on every node must not depend on either. Facts: the fields of
// k8s.io/client-go/tools/clientcmd/api/v1 (types.go), the paths of the service account admission controller.
#pragma once
#include "base/file/root.h"

// Where deploy/ puts everything: a namespace of its own, used by nothing else.
#define KUBE_NAMESPACE "kmodsmith"

struct kube_config {
	char *server;            // "https://10.0.0.1:443", without a slash at the end
	char *authorities;       // PEM; NULL = the system's
	char *certificate, *key; // PEM; NULL = none
	char *token;             // NULL = none, or of token_file
	char *token_file;        // read again as it changes; below token_root
	struct root token_root;
	char *namespace;      // KUBE_NAMESPACE when nothing says another
	unsigned deadline_ms; // of every call with its repetitions, whatever the call asks for; 0 = no such limit
};
#define KUBE_CONFIG_NONE ((struct kube_config){ .token_root = ROOT_NONE })

// Of the pod that we run in; kern: where its files are seen, env: what it was started with. 1 = read, 0 = this is no
// pod with a service account. E_CONFIG: half of one.
int kube_config_pod(const struct root *kern, char *const *env, struct kube_config *ret, struct err *err);
// path: as typed; context: NULL = the current one. E_CONFIG: what cannot be taken, by name.
int kube_config_file(const char *path, const char *context, struct kube_config *ret, struct err *err);
void kube_config_done(struct kube_config *c);
#define auto_kube_config __attribute__((cleanup(kube_config_done)))
