// SPDX-License-Identifier: Apache-2.0
// The GPU Operator's driver pod, read by its own init container, to learn what the driver container will be started
// with: the init container does not get that itself. Facts: NVIDIA/gpu-operator a22dbf6,
// assets/state-driver/0500_daemonset.yaml and controllers/object_controls.go: with a ClusterPolicy driver.env goes to
// the driver's container alone.
#pragma once
#include "cluster/kube/client.h"

// The pod of that name on this node, else the one with a driver's component label. may_end: also one that is being
// deleted. E_NOT_FOUND: there is neither.
int driver_pod_read(struct kube *k, const char *namespace, const char *node, const char *name, bool may_end,
		    json_t **ret, struct err *err);
const char *driver_pod_uid(const json_t *pod);
const json_t *driver_pod_owner(const json_t *object); // the controller of a pod or a DaemonSet; NULL = none
const char *driver_pod_image(const json_t *pod);      // of the driver's container; NULL = it has none

// Pure. The pod that the DaemonSet (NULL = gone) would make now, with the uid of the present one, whose volumes are
// there. Caller owns.
json_t *driver_pod_next(const json_t *own, const json_t *set);
bool driver_pod_is_same_image(const json_t *own, const json_t *next); // by its name, whatever registry and tag
// The driver that the next pod would load. carried: that of our image. E_CONFIG: the image does not say so.
int driver_pod_version(const json_t *own, const json_t *next, const char *carried, char **ret, struct err *err);

// Pure. E_USAGE: the pod has no driver container. E_CONFIG: its image is not of our driver, so it would not load what
// is proven here. driver: the version that our image carries; NULL = none.
int driver_pod_check(const json_t *pod, const char *driver, struct err *err);
// "NAME=VALUE", with $(NAME) expanded. ret_unknown: names whose value is in another object.
void driver_pod_environment(const json_t *pod, struct strv *ret, struct strv *ret_unknown);

// What a ClusterPolicy mounts into the driver's container: kernelModuleConfig in /drivers, repoConfig in the directory
// of the sources of apt, dnf or zypper.
struct driver_pod_file {
	char *to;     // there: "drivers/nvidia.conf"; a directory = all files of the volume
	char *volume; // its directory below the kubelet's: "pods/UID/volumes/kubernetes.io~configmap/NAME"
	char *path;   // in the volume; NULL = the volume itself
};
struct driver_pod_files {
	struct driver_pod_file *items;
	size_t count;
};
void driver_pod_files(const json_t *pod, struct driver_pod_files *ret);
void driver_pod_files_done(struct driver_pod_files *f);
#define auto_driver_pod_files __attribute__((cleanup(driver_pod_files_done)))
