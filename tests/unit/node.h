// SPDX-License-Identifier: Apache-2.0
// A Node of a GPU cluster as it comes from an API server, some 14 KiB: what a kubelet writes (registration, status with
// images), the labels of node-feature-discovery and of NVIDIA's feature discovery, annotations of a network plugin.
// Made-up values, real keys.
#pragma once
#include "base/formats/json.h"

static inline void node_labels_(json_t *labels, unsigned i)
{
	static const char *const rows[][2] = {
		{ "beta.kubernetes.io/arch", "amd64" },
		{ "beta.kubernetes.io/instance-type", "gpu.h100.8" },
		{ "beta.kubernetes.io/os", "linux" },
		{ "kubernetes.io/arch", "amd64" },
		{ "kubernetes.io/os", "linux" },
		{ "node.kubernetes.io/instance-type", "gpu.h100.8" },
		{ "topology.kubernetes.io/region", "region-1" },
		{ "feature.node.kubernetes.io/cpu-cpuid.AMXBF16", "true" },
		{ "feature.node.kubernetes.io/cpu-cpuid.AMXINT8", "true" },
		{ "feature.node.kubernetes.io/cpu-cpuid.AMXTILE", "true" },
		{ "feature.node.kubernetes.io/cpu-cpuid.AVX512BF16", "true" },
		{ "feature.node.kubernetes.io/cpu-cpuid.AVX512VNNI", "true" },
		{ "feature.node.kubernetes.io/cpu-hardware_multithreading", "true" },
		{ "feature.node.kubernetes.io/cpu-model.family", "6" },
		{ "feature.node.kubernetes.io/cpu-model.id", "143" },
		{ "feature.node.kubernetes.io/cpu-model.vendor_id", "Intel" },
		{ "feature.node.kubernetes.io/kernel-config.NO_HZ", "true" },
		{ "feature.node.kubernetes.io/kernel-version.full", "6.1.0-56-cloud-amd64" },
		{ "feature.node.kubernetes.io/kernel-version.major", "6" },
		{ "feature.node.kubernetes.io/kernel-version.minor", "1" },
		{ "feature.node.kubernetes.io/memory-numa", "true" },
		{ "feature.node.kubernetes.io/network-sriov.capable", "true" },
		{ "feature.node.kubernetes.io/pci-10de.present", "true" },
		{ "feature.node.kubernetes.io/pci-15b3.present", "true" },
		{ "feature.node.kubernetes.io/rdma.available", "true" },
		{ "feature.node.kubernetes.io/system-os_release.ID", "debian" },
		{ "feature.node.kubernetes.io/system-os_release.VERSION_ID", "12" },
		{ "nvidia.com/cuda.driver-version.full", "535.216.03" },
		{ "nvidia.com/cuda.runtime-version.full", "12.2" },
		{ "nvidia.com/gfd.timestamp", "1763800000" },
		{ "nvidia.com/gpu.compute.major", "9" },
		{ "nvidia.com/gpu.count", "8" },
		{ "nvidia.com/gpu.deploy.container-toolkit", "true" },
		{ "nvidia.com/gpu.deploy.dcgm", "true" },
		{ "nvidia.com/gpu.deploy.dcgm-exporter", "true" },
		{ "nvidia.com/gpu.deploy.device-plugin", "true" },
		{ "nvidia.com/gpu.deploy.gpu-feature-discovery", "true" },
		{ "nvidia.com/gpu.deploy.mig-manager", "true" },
		{ "nvidia.com/gpu.deploy.node-status-exporter", "true" },
		{ "nvidia.com/gpu.deploy.operator-validator", "true" },
		{ "nvidia.com/gpu.family", "hopper" },
		{ "nvidia.com/gpu.machine", "HGX-H100-8" },
		{ "nvidia.com/gpu.memory", "81559" },
		{ "nvidia.com/gpu.present", "true" },
		{ "nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3" },
		{ "nvidia.com/mig.strategy", "single" },
	};
	for (size_t n = 0; n < ARRAY_SIZE(rows); n++)
		json_object_set_new(labels, rows[n][0], json_string(rows[n][1]));
	auto_str char *host = str_fmt("gpu%05u", i), *zone = str_fmt("region-1%c", 'a' + (char)(i % 5));
	json_object_set_new(labels, "kubernetes.io/hostname", json_string(host));
	json_object_set_new(labels, "topology.kubernetes.io/zone", json_string(zone));
}

static inline json_t *node_annotations_(const json_t *labels, unsigned i)
{
	const char *key;
	json_t *value;
	auto_str char *features = str_dup("");
	json_object_foreach((json_t *)(uintptr_t)labels, key, value)
	{
		if (str_starts(key, "feature.node"))
			str_add(&features, "%s%s", *features ? "," : "", key + strlen("feature.node.kubernetes.io/"));
	}
	auto_str char *address = str_fmt("10.%u.%u.10/24", i >> 8 & 255, i & 255);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "nfd.node.kubernetes.io/feature-labels", features,
			 "nfd.node.kubernetes.io/master.version", "v0.16.6", "node.alpha.kubernetes.io/ttl", "300",
			 "projectcalico.org/IPv4Address", address, "projectcalico.org/IPv4VXLANTunnelAddr", address,
			 "volumes.kubernetes.io/controller-managed-attach-detach", "true");
}

// The largest images of the node (a kubelet names up to 50), each under its digest and its tag.
static inline json_t *node_images_(unsigned i)
{
	enum { IMAGES = 30 };
	json_t *images = json_array();
	for (unsigned n = 0; n < IMAGES; n++) {
		auto_str char *image = str_fmt("registry.example.com/platform/team-%02u/component-%02u", n % 7, n);
		auto_str char *tag = str_fmt("%s:v1.%u.%u", image, n, i % 9);
		auto_str char *digest = str_fmt("%s@sha256:%016x%016x%016x%016x", image, n, i, n * i, n + i);
		json_array_append_new(images, json_pack("{s:[s, s], s:I}", "names", digest, tag, "sizeBytes",
							(json_int_t)9876543210 / (n + 1)));
	}
	return images;
}

static inline json_t *node_conditions_(void)
{
	static const char *const rows[][3] = {
		{ "MemoryPressure", "False", "kubelet has sufficient memory available" },
		{ "DiskPressure", "False", "kubelet has no disk pressure" },
		{ "PIDPressure", "False", "kubelet has sufficient PID available" },
		{ "Ready", "True", "kubelet is posting ready status" },
	};
	json_t *conditions = json_array();
	for (size_t n = 0; n < ARRAY_SIZE(rows); n++)
		json_array_append_new(conditions,
				      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "type", rows[n][0], "status",
						rows[n][1], "lastHeartbeatTime", "2026-11-22T10:00:00Z",
						"lastTransitionTime", "2026-11-01T10:00:00Z", "reason", "Kubelet",
						"message", rows[n][2]));
	return conditions;
}

static inline json_t *node_status_(unsigned i)
{
	auto_str char *address = str_fmt("10.%u.%u.10", i >> 8 & 255, i & 255), *id = str_fmt("%032x", i);
	auto_json json_t *room = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "cpu", "224", "ephemeral-storage",
					   "3748905484Ki", "hugepages-1Gi", "0", "hugepages-2Mi", "0", "memory",
					   "2113394692Ki", "nvidia.com/gpu", "8", "pods", "110");
	json_t *info =
		json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "architecture", "amd64", "bootID", id,
			  "containerRuntimeVersion", "containerd://1.7.22", "kernelVersion", "6.1.0-56-cloud-amd64",
			  "kubeProxyVersion", "v1.33.1", "kubeletVersion", "v1.33.1", "machineID", id,
			  "operatingSystem", "linux", "osImage", "Debian GNU/Linux 12 (bookworm)", "systemUUID", id);
	return json_pack("{s:[{s:s, s:s}], s:O, s:O, s:o, s:{s:{s:i}}, s:o, s:o}", "addresses", "type", "InternalIP",
			 "address", address, "allocatable", room, "capacity", room, "conditions", node_conditions_(),
			 "daemonEndpoints", "kubeletEndpoint", "Port", 10250, "images", node_images_(i), "nodeInfo",
			 info);
}

// Without what the server adds: uid, version, managed fields. Caller owns it; name: "gpu%05u".
static inline json_t *node_make(unsigned i)
{
	auto_str char *name = str_fmt("gpu%05u", i), *provider = str_fmt("example://region-1/i-%017x", i);
	json_t *labels = json_object();
	node_labels_(labels, i);
	json_t *metadata = json_pack("{s:s, s:o, s:o}", "name", name, "annotations", node_annotations_(labels, i),
				     "labels", labels);
	return json_pack("{s:s, s:s, s:o, s:{s:s, s:[{s:s, s:s, s:s}]}, s:o}", "apiVersion", "v1", "kind", "Node",
			 "metadata", metadata, "spec", "providerID", provider, "taints", "key", "nvidia.com/gpu",
			 "value", "present", "effect", "NoSchedule", "status", node_status_(i));
}
