// SPDX-License-Identifier: Apache-2.0
// 5,000 processes in 100 ms (P11) are too many for one processor, so a few workers share them.
#include "holders/holders.h"

#include "holders/proc_scan.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>

enum { WORKERS_MOST = 8, PROCESSES_PER_WORKER = 128 };

struct worker {
	pthread_t thread;
	const struct proc_scan *scan;
	const int *pids;
	size_t first, count, stride;
	struct proc_scan_result result;
};

static void *scan_worker(void *arg)
{
	struct worker *w = arg;
	for (size_t i = w->first; i < w->count; i += w->stride)
		proc_scan_process(w->scan, w->pids[i], &w->result);
	return NULL;
}

static int list_processes(const struct proc_scan *s, int **ret, size_t *ret_count, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(s->kern, "proc", &names, err) < 0)
		return -1;
	int *pids = mem_alloc((names.count + 1) * sizeof(*pids));
	size_t count = 0;
	for (size_t i = 0; i < names.count; i++) {
		uint64_t pid;
		if (isdigit((unsigned char)*names.items[i]) && str_u64(names.items[i], 10, &pid) &&
		    (int)pid != s->own_pid)
			pids[count++] = (int)pid;
	}
	*ret = pids;
	*ret_count = count;
	return 0;
}

static size_t worker_count(size_t processes)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	size_t most = online < 1 ? 1 : online > WORKERS_MOST ? WORKERS_MOST : (size_t)online;
	size_t useful = processes / PROCESSES_PER_WORKER + 1;
	return useful < most ? useful : most;
}

// Each mount namespace once, by its lowest process, without our own.
static void scan_namespaces(const struct proc_scan *s, struct worker *workers, size_t count)
{
	auto_strv struct strv seen = { 0 };
	if (s->own_namespace)
		strv_add(&seen, str_dup(s->own_namespace));
	for (size_t i = 0; i < count; i++) {
		const struct proc_scan_result *r = &workers[i].result;
		for (size_t j = 0; j < r->namespaces.count; j++) {
			if (strv_has(&seen, r->namespaces.items[j]))
				continue;
			strv_add(&seen, str_dup(r->namespaces.items[j]));
			proc_scan_mounts(s, r->first_pids[j], &workers[i].result);
		}
	}
}

static int compare_holders(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->path, y->path);
}

static void scan_processes(const struct proc_scan *s, const int *pids, size_t count, struct holders *h)
{
	struct worker workers[WORKERS_MOST] = { 0 };
	bool is_started[WORKERS_MOST] = { false };
	size_t most = worker_count(count);
	for (size_t i = 0; i < most; i++)
		workers[i] = (struct worker){ .scan = s, .pids = pids, .first = i, .count = count, .stride = most };
	for (size_t i = 1; i < most; i++)
		is_started[i] = pthread_create(&workers[i].thread, NULL, scan_worker, &workers[i]) == 0;
	scan_worker(&workers[0]);
	for (size_t i = 1; i < most; i++) {
		if (is_started[i])
			pthread_join(workers[i].thread, NULL);
		else // its share is done here
			scan_worker(&workers[i]);
	}
	scan_namespaces(s, workers, most);
	for (size_t i = 0; i < most; i++) {
		struct proc_scan_result *r = &workers[i].result;
		h->processes += r->processes;
		h->unreadable += r->unreadable;
		if (r->count) {
			h->items = mem_grow(h->items, h->count + r->count, sizeof(*h->items));
			memcpy(h->items + h->count, r->items, r->count * sizeof(*r->items));
			h->count += r->count;
		}
		free(r->items);
		free(r->first_pids);
		free(r->buffer);
		strv_done(&r->namespaces);
	}
}

static bool has_drm_node(const struct holders *h)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->items[i].kind != HOLDER_MOUNT && strstr(h->items[i].path, "/dri/"))
			return true;
	return false;
}

// The virtual consoles that frame buffers have: "vtcon1".
static void list_bound_consoles(const struct root *kern, struct strv *ret)
{
	static const char dir[] = "sys/class/vtconsole";
	struct err ignored;
	auto_strv struct strv names = { 0 };
	root_list(kern, dir, &names, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *name = NULL, *bind = NULL, *name_path = str_fmt("%s/%s/name", dir, names.items[i]),
			      *bind_path = str_fmt("%s/%s/bind", dir, names.items[i]);
		if (root_line(kern, name_path, &name, &ignored) > 0 && strstr(name, "frame buffer") &&
		    root_line(kern, bind_path, &bind, &ignored) > 0 && str_eq(bind, "1"))
			strv_add(ret, str_dup(names.items[i]));
	}
}

// With fbdev=1 nvidia-drm gives the kernel a frame buffer, whose console then counts as one more reference and is no
// process. While a process has a DRM node open, that is who is counted. Source: /proc/fb of the kernel's fbmem.c.
static char *find_console(const struct root *kern, const struct modules *loaded, const struct holders *h)
{
	const struct loaded_module *drm = modules_find(loaded, "nvidia_drm");
	struct err ignored;
	char *console = NULL;
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 }, consoles = { 0 };
	if (!drm || drm->refcount <= drm->holders.count || has_drm_node(h) ||
	    root_read(kern, "proc/fb", &text, NULL, &ignored) <= 0)
		return NULL;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		const char *name = strchr(lines.items[i], ' ');
		if (name && str_starts(name + 1, "nvidia-drm"))
			str_add(&console, "%sfb%.*s (%s)", console ? ", " : "", (int)(name - lines.items[i]),
				lines.items[i], name + 1);
	}
	list_bound_consoles(kern, &consoles);
	for (size_t i = 0; console && i < consoles.count; i++)
		str_add(&console, ", %s", consoles.items[i]);
	return console;
}

int holders_find(const struct root *kern, const struct modules *loaded, struct holders *ret, struct err *err)
{
	auto_holders struct holders h = { 0 };
	__attribute__((cleanup(proc_scan_done))) struct proc_scan s = { .proc = -1 };
	int *pids;
	size_t count;
	if (proc_scan_open(&s, kern, loaded, err) < 0 || list_processes(&s, &pids, &count, err) < 0)
		return err_wrap(err, "look for processes that use the driver");
	scan_processes(&s, pids, count, &h);
	if (s.use == PROC_SCAN_IN_USE && !holders_blocking(&h)) { // the reference counts say that there is one more
		holders_done(&h);
		s.is_thorough = true;
		scan_processes(&s, pids, count, &h);
	}
	free(pids);
	for (size_t i = 0; i < loaded->count; i++)
		if (!loaded->items[i].is_driver)
			strv_add(&h.modules, str_dup(loaded->items[i].name));
	h.console = find_console(kern, loaded, &h);
	if (h.count)
		qsort(h.items, h.count, sizeof(*h.items), compare_holders);
	*ret = h;
	h = (struct holders){ 0 };
	return ret->count || ret->modules.count || ret->console;
}

int holders_of(const struct root *kern, const struct strv *nodes, struct holders *ret, struct err *err)
{
	static const struct modules none;
	auto_holders struct holders all = { 0 };
	__attribute__((cleanup(proc_scan_done))) struct proc_scan s = { .proc = -1 };
	int *pids;
	size_t count;
	if (!nodes->count)
		return 0;
	if (proc_scan_open(&s, kern, &none, err) < 0 || list_processes(&s, &pids, &count, err) < 0)
		return err_wrap(err, "look for processes that use a GPU");
	for (size_t i = 0; i < nodes->count; i++)
		strv_add(&s.drm, str_dup(nodes->items[i]));
	scan_processes(&s, pids, count, &all);
	free(pids);
	for (size_t i = 0; i < all.count; i++) {
		if (!strv_has(nodes, all.items[i].path))
			continue;
		ret->items = mem_grow(ret->items, ret->count + 1, sizeof(*ret->items));
		ret->items[ret->count++] = all.items[i];
		all.items[i] = (struct holder){ 0 };
	}
	return ret->count > 0;
}

void holder_done(struct holder *h)
{
	free(h->comm);
	free(h->cmdline);
	free(h->runtime);
	free(h->container);
	free(h->pod);
	free(h->path);
}

void holders_done(struct holders *h)
{
	for (size_t i = 0; i < h->count; i++)
		holder_done(&h->items[i]);
	free(h->items);
	strv_done(&h->modules);
	free(h->console);
	*h = (struct holders){ 0 };
}

size_t holders_blocking(const struct holders *h)
{
	size_t count = h->modules.count;
	int last = 0;
	for (size_t i = 0; i < h->count; i++)
		if (h->items[i].kind != HOLDER_MOUNT && h->items[i].pid != last) {
			last = h->items[i].pid;
			count++;
		}
	return count;
}

char *holders_first(const struct holders *h)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->items[i].kind != HOLDER_MOUNT)
			return holder_text(&h->items[i]);
	return h->modules.count ? str_fmt("module %s", h->modules.items[0]) : str_dup("none");
}

int holders_next(const struct holders *h, struct err *err)
{
	const char *console = h->console ? strstr(h->console, "vtcon") : NULL;
	if (console)
		return err_next(err,
				"`echo 0 >/sys/class/vtconsole/%.*s/bind` takes the console off it until the next "
				"boot; 'options nvidia-drm fbdev=0' in /etc/modprobe.d keeps it off",
				(int)strcspn(console, ","), console);
	if (h->console)
		return err_next(err, "write 'options nvidia-drm fbdev=0' into a file of /etc/modprobe.d, and reboot");
	return -1;
}

const char *holder_kind_name(enum holder_kind k)
{
	static const char *const names[] = { "fd", "map", "mount" };
	return names[k];
}

char *holder_text(const struct holder *h)
{
	char *text = str_fmt("pid %d %s (uid %u", h->pid, h->comm, h->uid);
	if (h->pod)
		str_add(&text, ", pod %s", h->pod);
	if (h->container)
		str_add(&text, ", %s%scontainer %.12s", h->runtime ? h->runtime : "", h->runtime ? " " : "",
			h->container);
	str_add(&text, ") %s %s", holder_kind_name(h->kind), h->path);
	for (char *c = text; *c; c++) // a process chooses its own name: keep control characters from the terminal
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return text;
}
