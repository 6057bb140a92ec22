// SPDX-License-Identifier: Apache-2.0
// A Node, its pods and a driver manager on the simulated API server.
#pragma once
#include "cluster/driver_manager/evacuate.h"
#include "cluster/node_state/operands.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

#define NODE "/api/v1/nodes/n00"
#define PODS "/api/v1/namespaces/default/pods"
#define PAUSED "paused-for-driver-upgrade"

struct scene {
	struct sim *sim;
	struct kube *kube;
	struct evacuation e;
	char *said;
	bool is_ended;
};

static inline void on_note(void *ctx, const char *text)
{
	struct scene *s = ctx;
	str_add(&s->said, "%s\n", text);
}

static inline bool is_ended(void *ctx)
{
	return ((struct scene *)ctx)->is_ended;
}

static inline void begin(struct scene *s, const char *node)
{
	*s = (struct scene){ .sim = sim_new(NULL) };
	sim_make(s->sim, "/api/v1/nodes", "%s", node);
	s->kube = sim_client(s->sim, "manager");
	s->e = (struct evacuation){
		.kube = s->kube, .node = "n00", .may_evict = true, .note = on_note, .is_ended = is_ended, .ctx = s
	};
}

static inline void end(struct scene *s)
{
	kube_free(s->kube);
	sim_free(s->sim);
	free(s->said);
}

static const char PLAIN[] = "{'metadata':{'name':'n00','labels':{'nvidia.com/gpu.deploy.device-plugin':'true',"
			    "'nvidia.com/gpu.deploy.dcgm':'false','site/gpu-user':'yes'}}}";

static inline void make_pod(struct scene *s, const char *name, const char *owner, const char *spec)
{
	auto_str char *status = str_fmt(PODS "/%s/status", name);
	sim_make(s->sim, PODS,
		 "{'metadata':{'name':'%s','namespace':'default','labels':{'app':'%s'}%s},"
		 "'spec':{'nodeName':'n00','terminationGracePeriodSeconds':3,%s}}",
		 name, name, owner, spec);
	sim_merge(s->sim, status, "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'}]}}");
}
#define OF_JOB ",'ownerReferences':[{'kind':'Job','name':'j','uid':'1','apiVersion':'batch/v1','controller':true}]"
#define OF_SET ",'ownerReferences':[{'kind':'DaemonSet','name':'d','uid':'2','apiVersion':'apps/v1','controller':true}]"
#define GPU "'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':'1'}}}]"
#define NO_GPU "'containers':[{'name':'c'}]"

static inline const char *label(struct scene *s, const char *key)
{
	return json_string_value(json_object_get(sim_at(sim_get(s->sim, NODE), "metadata labels"), key));
}
static inline const char *mark(struct scene *s)
{
	return json_string_value(
		json_object_get(sim_at(sim_get(s->sim, NODE), "metadata annotations"), EVACUATE_CORDON));
}
static inline bool cordoned(struct scene *s)
{
	return json_is_true(sim_at(sim_get(s->sim, NODE), "spec unschedulable"));
}
static inline bool is_there(struct scene *s, const char *pod)
{
	auto_str char *path = str_fmt(PODS "/%s", pod);
	return sim_get(s->sim, path) != NULL;
}

static inline void the_daemonset_takes_its_pod(void *ctx)
{
	struct scene *s = ctx;
	if (str_eq(label(s, "nvidia.com/gpu.deploy.device-plugin"), PAUSED))
		sim_delete(s->sim, PODS "/plugin");
	else
		sim_after(1000, the_daemonset_takes_its_pod, s);
}

static inline void make_plugin(struct scene *s)
{
	make_pod(s, "plugin", OF_SET, "'nodeSelector':{'nvidia.com/gpu.deploy.device-plugin':'true'}," NO_GPU);
	sim_after(1000, the_daemonset_takes_its_pod, s);
}
