// SPDX-License-Identifier: Apache-2.0
#include "cluster/driver_manager/driver_pod.h"

#include "cluster/kube/api.h"
#include "cluster/node_state/nvidia.h"

#include <ctype.h>

static const char DRIVER_CTR[] = "nvidia-driver-ctr", MANAGER_CTR[] = "k8s-driver-manager";
static const char COMPONENT[] = "app.kubernetes.io/component";

static const json_t *at(const json_t *object, const char *outer, const char *key)
{
	return json_object_get(json_object_get(object, outer), key);
}
static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

struct search {
	const char *name; // wanted
	bool may_end;
	char *named, *by_role; // found
};

static int keep_driver_pod(void *ctx, json_t *pod, struct err *err)
{
	(void)err;
	struct search *s = ctx;
	const json_t *metadata = json_object_get(pod, "metadata");
	const char *name = text(metadata, "name"), *role = text(json_object_get(metadata, "labels"), COMPONENT);
	char **found = str_eq(name, s->name) ? &s->named : str_eq(role, "nvidia-driver") ? &s->by_role : NULL;
	if (found && !*found && (s->may_end || !json_object_get(metadata, "deletionTimestamp")))
		*found = str_dup(name);
	return 0;
}

int driver_pod_read(struct kube *k, const char *namespace, const char *node, const char *name, bool may_end,
		    json_t **ret, struct err *err)
{
	static const char *const record[] = { "metadata name", "metadata labels app.kubernetes.io/component",
					      "metadata deletionTimestamp", NULL };
	struct search s = { .name = name, .may_end = may_end };
	auto_str char *escaped = http_escape(node), *version = NULL;
	auto_str char *query = str_fmt("fieldSelector=spec.nodeName%%3D%s", escaped);
	auto_str char *pods = str_fmt("/api/v1/namespaces/%s/pods", namespace);
	struct kube_list list = { .path = pods, .query = query, .record = record, .take = keep_driver_pod, .ctx = &s };
	int r = kube_list(k, &list, &version, err);
	auto_str char *named = s.named, *by_role = s.by_role;
	const char *found = named ? named : by_role;
	auto_str char *path = found ? str_fmt("%s/%s", pods, found) : NULL;
	if (r < 0)
		return -1;
	r = path ? api_get(k, path, ret, err) : 0;
	return r == 0 ? err_set(err, E_NOT_FOUND,
				"there is no pod '%s' and no driver's pod on node '%s' in namespace '%s'; "
				"OPERATOR_NAMESPACE says where it is",
				name, node, namespace) :
			r;
}

const char *driver_pod_uid(const json_t *pod)
{
	return text(json_object_get(pod, "metadata"), "uid");
}

const json_t *driver_pod_owner(const json_t *object)
{
	const json_t *all = at(object, "metadata", "ownerReferences");
	for (size_t i = 0; i < json_array_size(all); i++)
		if (json_is_true(json_object_get(json_array_get(all, i), "controller")))
			return json_array_get(all, i);
	return NULL;
}

static const json_t *container(const json_t *pod, const char *list, const char *name)
{
	const json_t *all = at(pod, "spec", list);
	for (size_t i = 0; i < json_array_size(all); i++)
		if (str_eq(text(json_array_get(all, i), "name"), name))
			return json_array_get(all, i);
	return NULL;
}

// The last part of its name, and its tag; either may be NULL.
static void split_image(const char *image, char **ret_name, char **ret_tag)
{
	const char *slash = image ? strrchr(image, '/') : NULL, *name = slash ? slash + 1 : image;
	if (!image)
		return;
	size_t len = strcspn(name, ":@");
	*ret_name = str_ndup(name, len);
	if (name[len] == ':')
		*ret_tag = str_ndup(name + len + 1, strcspn(name + len + 1, "@"));
}

// VERSION-OS, and BRANCH-KERNEL-OS where the driver is precompiled (gpu-operator internal/image/image.go).
static bool is_tag_of(const char *tag, const char *driver)
{
	size_t len = strspn(tag, "0123456789.");
	auto_str char *version = str_ndup(tag, len), *branch = str_ndup(driver, strcspn(driver, "."));
	return !isdigit((unsigned char)*tag) || str_eq(version, driver) || str_eq(version, branch);
}

int driver_pod_check(const json_t *pod, const char *driver, struct err *err)
{
	const json_t *its = container(pod, "containers", DRIVER_CTR),
		     *ours = container(pod, "initContainers", MANAGER_CTR);
	auto_str char *its_name = NULL, *its_tag = NULL, *our_name = NULL, *our_tag = NULL;
	if (!its)
		return err_set(err, E_USAGE,
			       "pod '%s' has no container %s: only a driver's pod has a next driver to prove; for the "
			       "operator's other pods take NVIDIA's k8s-driver-manager",
			       text(json_object_get(pod, "metadata"), "name"), DRIVER_CTR);
	split_image(text(its, "image"), &its_name, &its_tag);
	split_image(text(ours, "image"), &our_name, &our_tag);
	if (ours && !str_eq(its_name, our_name))
		return err_set(err, E_CONFIG,
			       "%s has the image '%s' and %s '%s': the driver that one verifies would be loaded by the "
			       "other; set driver.manager to the image of driver",
			       DRIVER_CTR, text(its, "image"), MANAGER_CTR, text(ours, "image"));
	if (driver && its_tag && !is_tag_of(its_tag, driver))
		return err_set(err, E_CONFIG,
			       "%s has the image '%s', but this is an image of driver %s: set driver.manager.version "
			       "to driver.version",
			       DRIVER_CTR, text(its, "image"), driver);
	return 0;
}

const char *driver_pod_image(const json_t *pod)
{
	return text(container(pod, "containers", DRIVER_CTR), "image");
}

json_t *driver_pod_next(const json_t *own, const json_t *set)
{
	const json_t *spec = json_object_get(at(set, "spec", "template"), "spec");
	return json_pack("{s:{s:O?, s:O?}, s:O?}", "metadata", "name", at(own, "metadata", "name"), "uid",
			 at(own, "metadata", "uid"), "spec", spec);
}

bool driver_pod_is_same_image(const json_t *own, const json_t *next)
{
	auto_str char *its_name = NULL, *our_name = NULL, *tag = NULL, *our_tag = NULL;
	split_image(driver_pod_image(next), &its_name, &tag);
	split_image(driver_pod_image(own), &our_name, &our_tag);
	return str_eq(its_name, our_name);
}

int driver_pod_version(const json_t *own, const json_t *next, const char *carried, char **ret, struct err *err)
{
	const char *image = driver_pod_image(next);
	auto_str char *name = NULL, *tag = NULL;
	split_image(image, &name, &tag);
	const char *whole = tag ? tag : "", *end = whole + strspn(whole, "0123456789.");
	auto_str char *version = str_ndup(whole, (size_t)(end - whole));
	bool is_whole = isdigit((unsigned char)*version) && strchr(version, '.') && (!*end || *end == '-');
	if (carried && str_eq(image, driver_pod_image(own)))
		*ret = str_dup(carried);
	else if (is_whole)
		*ret = TAKE(version);
	else
		return err_set(err, E_CONFIG, "the image '%s' does not say which driver it has: no tag VERSION-OS",
			       image ? image : "");
	return 0;
}

static const char *variable_value(const struct strv *all, const char *name, size_t len)
{
	for (size_t i = all->count; i-- > 0;)
		if (strncmp(all->items[i], name, len) == 0 && all->items[i][len] == '=')
			return all->items[i] + len + 1;
	return NULL;
}

// Like the kubelet: $(NAME) of earlier variables, $$ for $; an unknown name stays as written.
static char *expand_variables(const char *value, const struct strv *known)
{
	char *ret = str_dup("");
	for (const char *c = value; *c; c++) {
		size_t len = c[0] == '$' && c[1] == '(' ? strcspn(c + 2, ")") : 0;
		const char *put = len && c[2 + len] ? variable_value(known, c + 2, len) : NULL;
		bool is_escaped = c[0] == '$' && c[1] == '$';
		if (put)
			str_add(&ret, "%s", put);
		else
			str_add(&ret, "%c", *c);
		c += put ? len + 2 : is_escaped;
	}
	return ret;
}

void driver_pod_environment(const json_t *pod, struct strv *ret, struct strv *ret_unknown)
{
	const json_t *its = container(pod, "containers", DRIVER_CTR), *from = json_object_get(its, "envFrom"),
		     *env = json_object_get(its, "env");
	for (size_t i = 0; i < json_array_size(from); i++) {
		const json_t *source = json_array_get(from, i);
		const char *name = text(json_object_get(source, "secretRef"), "name");
		const char *map = text(json_object_get(source, "configMapRef"), "name");
		if (name || map)
			strv_add(ret_unknown,
				 str_fmt("all of %s %s", name ? "Secret" : "ConfigMap", name ? name : map));
	}
	for (size_t i = 0; i < json_array_size(env); i++) {
		const json_t *v = json_array_get(env, i), *source = json_object_get(v, "valueFrom");
		const char *name = text(v, "name"), *value = text(v, "value");
		// Fields of the pod, such as NODE_NAME: the init container has them itself.
		if (!name || json_object_get(source, "fieldRef") || json_object_get(source, "resourceFieldRef"))
			continue;
		if (source) {
			strv_add(ret_unknown, str_dup(name));
			continue;
		}
		auto_str char *whole = expand_variables(value ? value : "", ret);
		strv_add(ret, str_fmt("%s=%s", name, whole));
	}
}

// Of the volumes that the kubelet mounts before the first container starts.
static char *volume_dir(const json_t *pod, const char *name)
{
	const json_t *all = at(pod, "spec", "volumes");
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *v = json_array_get(all, i);
		const char *kind = json_object_get(v, "configMap") ? "configmap" :
				   json_object_get(v, "secret")    ? "secret" :
				   json_object_get(v, "projected") ? "projected" :
								     NULL;
		if (kind && str_eq(text(v, "name"), name))
			return str_fmt("pods/%s/volumes/kubernetes.io~%s/%s", driver_pod_uid(pod), kind, name);
	}
	return NULL;
}

static bool is_at_or_below(const char *path, const char *dir)
{
	const char *rest = str_starts(path, dir) ? path + strlen(dir) : NULL;
	return rest && (!*rest || *rest == '/');
}

static bool is_wanted(const char *path) // without the first slash
{
	for (const struct nvidia_input *x = nvidia_inputs; x->name; x++)
		if (x->kind == INPUT_MOUNT && is_at_or_below(path, x->name))
			return true;
	return is_at_or_below(path, "drivers");
}

void driver_pod_files(const json_t *pod, struct driver_pod_files *ret)
{
	const json_t *mounts = json_object_get(container(pod, "containers", DRIVER_CTR), "volumeMounts");
	for (size_t i = 0; i < json_array_size(mounts); i++) {
		const json_t *m = json_array_get(mounts, i);
		const char *path = text(m, "mountPath");
		if (!path || *path != '/' || !is_wanted(path + 1))
			continue;
		char *dir = volume_dir(pod, text(m, "name"));
		if (!dir)
			continue;
		size_t len = strlen(path + 1);
		while (path[len] == '/')
			len--;
		ret->items = mem_grow(ret->items, ret->count + 1, sizeof(*ret->items));
		ret->items[ret->count++] = (struct driver_pod_file){ .to = str_ndup(path + 1, len),
								     .volume = dir,
								     .path = str_dup(text(m, "subPath")) };
	}
}

void driver_pod_files_done(struct driver_pod_files *f)
{
	for (size_t i = 0; i < f->count; i++) {
		free(f->items[i].to);
		free(f->items[i].volume);
		free(f->items[i].path);
	}
	free(f->items);
	*f = (struct driver_pod_files){ 0 };
}
