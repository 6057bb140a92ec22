// SPDX-License-Identifier: Apache-2.0
// A rollout of thousands of nodes on the simulated API server, by the coordinator as it is: calls are counted by the
// server, time is virtual, the laws of a rollout are looked at on every request.
//
//   scale NODES [AT-ONCE]
#include "tests/sim/farm.h"

#include <stdio.h>
#include <sys/resource.h>

enum { PODS_ONE_IN = 10, IDLE_MS = 3600 * 1000 };

static double cpu_s(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static size_t asked(const struct farm *f)
{
	return sim_count(f->sim, "boss", NULL) + sim_count(f->sim, "boss-lease", NULL);
}

static size_t events(const struct farm *f)
{
	size_t count = 0, rows;
	const struct sim_call *log = sim_log(f->sim, &rows);
	for (size_t i = 0; i < rows; i++)
		count += str_eq(log[i].verb, "create") && strstr(log[i].path, "/events");
	return count;
}

static int roll(struct farm *f, struct farm_coordinator *coordinator, unsigned nodes)
{
	enum { HOUR_MS = 3600 * 1000 };
	double before = cpu_s();
	if (!farm_until(f, coordinator, 1, "done", nodes, 72L * HOUR_MS)) {
		fprintf(stderr, "scale: %u of %u nodes are done after %ld s\n", farm_in(f, "done"), nodes,
			sim_now_ms() / 1000);
		return 1;
	}
	printf("    %u nodes in %ld virtual minutes, %.0f s of processor time with server and agents\n", nodes,
	       sim_now_ms() / 60000, cpu_s() - before);
	printf("    %-40s %8.2f a node\n", "patches by the coordinator",
	       (double)sim_count(f->sim, "boss", "patch") / nodes);
	printf("    %-40s %8.2f a node\n", "events by the coordinator", (double)events(f) / nodes);
	printf("    %-40s %8.3f a node\n", "writes of the Lease",
	       (double)sim_count(f->sim, "boss-lease", "update") / nodes);
	printf("    %-40s %8.2f a node\n", "lists by the coordinator",
	       (double)sim_count(f->sim, "boss", "list") / nodes);
	printf("    %-40s %8.2f a pod\n", "evictions",
	       (double)sim_count(f->sim, "boss", "evict") * PODS_ONE_IN / nodes);
	return 0;
}

static void rest(struct farm *f, struct farm_coordinator *coordinator)
{
	farm_run(coordinator, 1, 60 * 1000L);
	size_t calls = asked(f), patches = sim_count(f->sim, "boss", "patch");
	double before = cpu_s();
	farm_run(coordinator, 1, IDLE_MS);
	printf("    %-40s %8.3f a second\n", "calls at rest, for an hour", (double)(asked(f) - calls) * 1000 / IDLE_MS);
	printf("    %-40s %8zu\n", "writes on nodes at rest", sim_count(f->sim, "boss", "patch") - patches);
	printf("    %-40s %8.1f s\n", "processor time of that hour", cpu_s() - before);
}

int main(int argc, char **argv)
{
	unsigned nodes = argc > 1 ? (unsigned)atoi(argv[1]) : 0, at_once = argc > 2 ? (unsigned)atoi(argv[2]) : 500;
	struct farm f;
	struct farm_coordinator coordinator;
	auto_str char *policy = str_fmt("{'maxUnavailable':%u,'maxParallel':%u,'maxStaging':%u,'pools':[{'name':'gpus',"
					"'maxUnavailable':%u,'maxParallel':%u,'target':{'driver':'535.2'}}]}",
					at_once, at_once, at_once, at_once, at_once);
	if (nodes == 0) {
		fprintf(stderr, "usage: scale NODES [AT-ONCE]\n");
		return 2;
	}
	farm_begin(&f, nodes, policy);
	for (unsigned i = 0; i < nodes; i += PODS_ONE_IN) {
		auto_str char *pod = str_fmt("train-%u", i);
		farm_pod(&f, i, pod);
	}
	farm_coordinator_begin(&f, &coordinator, "boss");
	int r = roll(&f, &coordinator, nodes);
	if (r == 0)
		rest(&f, &coordinator);
	if (f.laws->count)
		fprintf(stderr, "scale: %zu laws were broken, first: %s\n", f.laws->count, f.laws->items[0]);
	r = r || f.laws->count;
	farm_coordinator_kill(&coordinator);
	farm_end(&f);
	return r;
}
