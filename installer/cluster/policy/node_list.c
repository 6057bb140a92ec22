// SPDX-License-Identifier: Apache-2.0
#include "cluster/policy/node_list.h"

#include "base/file/file.h"
#include "base/formats/json_stream.h"

#include <errno.h>

static const char *const rows[] = {
	"metadata name",
	"metadata uid",
	"metadata resourceVersion",
	"metadata deletionTimestamp",
	"metadata labels kmodsmith.io/*", // of the tables in annotations.c and node_state.c
	"metadata labels nvidia.com/gpu.deploy.*",
	"metadata labels nvidia.com/gpu-driver-upgrade*",
	"metadata labels nvidia.com/mig.config*",
	"metadata annotations kmodsmith.io/*",
	"metadata annotations cluster-autoscaler.kubernetes.io/scale-down-disabled",
	"metadata annotations karpenter.sh/do-not-disrupt",
	"metadata annotations nvidia.com/gpu-driver-upgrade*",
	"spec unschedulable",
	"status conditions type",
	"status conditions status",
	"status allocatable nvidia.com/*",
};

void node_list_record(const struct policy *policy, const char *of, struct strv *ret)
{
	auto_strv struct strv asked = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		strv_add(ret, str_fmt("%s%s", of, rows[i]));
	if (policy)
		policy_keys(policy, &asked);
	bool is_room = policy && ret->count + asked.count <= JSON_STREAM_PATHS;
	for (size_t i = 0; is_room && i < asked.count; i++)
		strv_add(ret, str_fmt("%smetadata labels %s", of, asked.items[i]));
	if (!is_room)
		strv_add(ret, str_fmt("%smetadata labels", of));
}

void node_list_done(struct node_list *r)
{
	free(r->nodes);
	strv_done(&r->names);
	*r = (struct node_list){ 0 };
}

static bool is_node_ready(const json_t *node)
{
	const json_t *conditions = json_object_get(json_object_get(node, "status"), "conditions");
	for (size_t i = 0; i < json_array_size(conditions); i++) {
		const json_t *c = json_array_get(conditions, i);
		if (str_eq(json_string_value(json_object_get(c, "type")), "Ready"))
			return str_eq(json_string_value(json_object_get(c, "status")), "True");
	}
	return false;
}

int node_list_read_node(const json_t *node, const char *name, const struct policy *policy, struct node_state *ret,
			struct err *err)
{
	const json_t *metadata = json_object_get(node, "metadata");
	const char *uid = json_string_value(json_object_get(metadata, "uid")), *key;
	json_t *value;
	if (!*name || !uid || !*uid || strlen(uid) >= UID_TEXT)
		return err_set(err, E_CONFIG, "metadata: must have a name and a uid");
	node_state_init(ret, name, uid);
	ret->facts.is_unschedulable = json_is_true(json_object_get(json_object_get(node, "spec"), "unschedulable"));
	ret->facts.is_ready = is_node_ready(node);
	baseline_read_resources(json_object_get(json_object_get(node, "status"), "allocatable"),
				ret->facts.allocatable);
	ret->facts.is_deleting = json_object_get(metadata, "deletionTimestamp") != NULL;
	json_object_foreach(json_object_get(metadata, "labels"), key, value)
	{
		const char *text = json_string_value(value);
		if (text) {
			node_state_label(ret, key, text);
			policy_label(policy, key, text, &ret->facts);
		}
	}
	json_object_foreach(json_object_get(metadata, "annotations"), key, value)
	{
		if (json_is_string(value))
			node_state_annotation(ret, key, json_string_value(value));
	}
	for (size_t i = 0; i < policy->driver_set_count && !*ret->facts.driver_set; i++) {
		const struct driver_set *set = &policy->driver_sets[i];
		if ((ret->facts.terms & set->terms) == set->terms)
			memcpy(ret->facts.driver_set, set->name, sizeof(ret->facts.driver_set));
	}
	return 0;
}

struct list_reader {
	const struct policy *policy;
	struct node_list list;
	struct json_stream *stream;
};

static void list_reader_done(struct list_reader *r)
{
	node_list_done(&r->list);
	json_stream_free(r->stream);
}
#define auto_list_reader __attribute__((cleanup(list_reader_done)))

static int refuse_list(struct err *err)
{
	return err_set(err, E_CONFIG, "items: must be a list of at most %d nodes", NODE_LIST_MOST);
}

static int take_node(void *ctx, json_t *node, struct err *err)
{
	struct list_reader *r = ctx;
	struct node_list *list = &r->list;
	const char *name = json_string_value(json_object_get(json_object_get(node, "metadata"), "name"));
	if (list->count == NODE_LIST_MOST)
		return refuse_list(err);
	if ((list->count & (list->count - 1)) == 0) // twice the room at each power of two
		list->nodes = mem_grow(list->nodes, list->count ? 2 * list->count : 1, sizeof(*list->nodes));
	strv_add(&list->names, str_dup(name ? name : ""));
	if (node_list_read_node(node, list->names.items[list->count], r->policy, &list->nodes[list->count], err) < 0)
		return err_wrap(err, "items[%zu]", list->count);
	list->count++;
	return 0;
}

static void begin_list(const struct policy *policy, struct list_reader *r)
{
	auto_strv struct strv record = { 0 };
	node_list_record(policy, "", &record);
	const char *const *keys = (const char *const *)record.items;
	const struct json_stream_table table = { .list = "items", .record = keys, .rest = keys };
	r->policy = policy;
	r->stream = json_stream_new(&table, take_node, r);
}

static int feed_list(struct list_reader *r, const char *text, size_t len, struct err *err)
{
	struct err why;
	if (json_stream_feed(r->stream, text, len, &why) == 0)
		return 0;
	if (why.code == E_CONFIG) {
		*err = why;
		return -1;
	}
	return err_set(err, E_CONFIG, "line %u is not JSON: %s", json_stream_line(r->stream), why.text);
}

static int by_uid(const void *a, const void *b, void *nodes)
{
	size_t i = *(const size_t *)a, k = *(const size_t *)b;
	int r = strcmp(((struct node_state *)nodes)[i].uid, ((struct node_state *)nodes)[k].uid);
	return r ? r : i < k ? -1 : i > k;
}

static int check_uids(const struct node_list *list, struct err *err)
{
	size_t *order = mem_grow(NULL, list->count, sizeof(*order));
	int r = 0;
	for (size_t i = 0; i < list->count; i++)
		order[i] = i;
	qsort_r(order, list->count, sizeof(*order), by_uid, list->nodes);
	for (size_t n = 1; n < list->count && r == 0; n++)
		if (str_eq(list->nodes[order[n]].uid, list->nodes[order[n - 1]].uid))
			r = err_set(err, E_CONFIG, "items[%zu].metadata.uid: node '%s' has the same one", order[n],
				    list->nodes[order[n - 1]].name);
	free(order);
	return r;
}

static int end_list(struct list_reader *r, struct node_list *ret, struct err *err)
{
	struct err why;
	auto_json json_t *rest = NULL;
	if (json_stream_end(r->stream, &rest, &why) < 0)
		return err_set(err, E_CONFIG, "line %u is not JSON: %s", json_stream_line(r->stream), why.text);
	unsigned lists = json_stream_lists(r->stream);
	bool is_node = !lists && json_is_string(json_object_get(json_object_get(rest, "metadata"), "name"));
	if (is_node ? take_node(r, rest, err) < 0 : lists != 1) // `kubectl get node NAME` gives no list
		return is_node ? -1 : refuse_list(err);
	if (check_uids(&r->list, err) < 0)
		return -1;
	*ret = r->list;
	r->list = (struct node_list){ 0 };
	return 0;
}

int node_list_read(int fd, const char *name, const struct policy *policy, struct node_list *ret, struct err *err)
{
	auto_list_reader struct list_reader r = { 0 };
	char buf[1 << 16];
	ssize_t n;
	begin_list(policy, &r);
	while ((n = read(fd, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0 && feed_list(&r, buf, (size_t)n, err) < 0)
			return err_wrap(err, "'%s'", name);
	if (n < 0)
		return file_fail("read", name, err);
	return end_list(&r, ret, err) < 0 ? err_wrap(err, "'%s'", name) : 0;
}
