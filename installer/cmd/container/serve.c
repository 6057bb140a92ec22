// SPDX-License-Identifier: Apache-2.0
#include "cmd/container/serve.h"

#include "base/core/date.h"
#include "base/core/secret.h"
#include "base/http/http_server.h"
#include "base/process/capabilities.h"
#include "status/liveness.h"
#include "status/probe.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

struct values {
	struct common common;
	struct listen_values listen;
	char *pulse_dir, *dev_root;
	unsigned stall_s, parent;
};

static const struct opt opts[] = {
	LISTEN_OPTS(struct values, listen),
	{ "pulse-dir", 0, "DIR", NULL, OPT_STR, offsetof(struct values, pulse_dir),
	  "answer for the coordinator that was given this directory, which has its metrics; default for the host" },
	{ "stall", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct values, stall_s),
	  "/healthz: how long a compile may run without finishing an object, or a coordinator without a turn; default "
	  "600" },
	{ "dev-root", 0, "DIR", "KMODSMITH_DEV_ROOT", OPT_STR, offsetof(struct values, dev_root),
	  "directory whose dev/ is read; default the host's root" },
	{ "until-exit", 0, "PID", NULL, OPT_UINT, offsetof(struct values, parent),
	  "end when this process has ended; default: at a signal" },
	{ 0 },
};

struct serve { // for the callback, which runs in one thread
	struct machine machine;
	struct root pulse_dir;
	const struct root *metrics;
	const char *dir; // in metrics
	struct probe probe;
};
#define SERVE_NONE ((struct serve){ .machine = MACHINE_NONE, .pulse_dir = ROOT_NONE })

static void serve_done(struct serve *s)
{
	root_done(&s->pulse_dir);
	machine_done(&s->machine);
}
#define auto_serve __attribute__((cleanup(serve_done)))

static int serve_open(const struct values *v, struct serve *s, struct err *err)
{
	if (machine_open(&v->common, &s->machine, err) < 0 || machine_open_dev(&s->machine, v->dev_root, err) < 0)
		return -1;
	if (v->pulse_dir && root_init(&s->pulse_dir, v->pulse_dir, err) < 0)
		return err_wrap(err, "--pulse-dir");
	s->metrics = v->pulse_dir ? &s->pulse_dir : &s->machine.host;
	s->dir = v->pulse_dir ? "." : LIVENESS_DIR "/metrics";
	s->probe = (struct probe){ .node = &s->machine.node,
				   .pulse_dir = v->pulse_dir ? &s->pulse_dir : NULL,
				   .stall_s = v->stall_s };
	return 0;
}

// Of each file whole or nothing: one that cannot be read must not look like one that says nothing.
static int read_metrics(const struct serve *s, char **ret, struct err *err)
{
	enum { FILES_MOST = 64, SIZE_MOST = 16 << 20 };
	auto_strv struct strv names = { 0 };
	auto_str char *text = str_dup("");
	if (root_list_most(s->metrics, s->dir, FILES_MOST, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", s->dir, names.items[i]), *one = NULL;
		if (!str_ends(names.items[i], ".prom"))
			continue;
		if (root_read_most(s->metrics, path, SIZE_MOST, &one, NULL, err) < 0)
			return -1;
		str_add(&text, "%s", one ? one : "");
	}
	*ret = TAKE(text);
	return 0;
}

static int answer_metrics(struct serve *s, struct http_server_answer *ret, struct err *err)
{
	ret->type = "text/plain; version=0.0.4; charset=utf-8";
	return read_metrics(s, &ret->text, err) < 0 ? -1 : 1;
}

static int answer_probe(int is_yes, char *why, struct http_server_answer *ret)
{
	if (is_yes >= 0)
		ret->text = str_fmt("%s, %s\n", is_yes ? "yes" : "no", why);
	free(why);
	return is_yes;
}

static int answer_health(struct serve *s, struct http_server_answer *ret, struct err *err)
{
	char *why = NULL;
	int is_yes = probe_liveness(&s->probe, &why, err);
	return answer_probe(is_yes, why, ret);
}

// A coordinator that stands by is ready to lead.
static int answer_readiness(struct serve *s, struct http_server_answer *ret, struct err *err)
{
	char *why = NULL;
	int is_yes = s->probe.pulse_dir ? probe_liveness(&s->probe, &why, err) : probe_readiness(&s->probe, &why, err);
	return answer_probe(is_yes, why, ret);
}

static int answer_index(struct serve *s, struct http_server_answer *ret, struct err *err)
{
	(void)s, (void)err;
	ret->text = str_dup("kmodsmith " KMODSMITH_VERSION "\n\n/metrics  for Prometheus\n/healthz  is it alive\n"
			    "/readyz   does the driver work\n");
	return 1;
}

static const struct page {
	const char *path;
	// 0 = no: 503, negative = 500
	int (*answer)(struct serve *s, struct http_server_answer *ret, struct err *err);
} pages[] = {
	{ "/", answer_index },
	{ "/metrics", answer_metrics },
	{ "/healthz", answer_health },
	{ "/readyz", answer_readiness },
};

static void answer(void *ctx, const struct http_server_request *request, struct http_server_answer *ret)
{
	enum { OK = 200, NOT_FOUND = 404, ERROR = 500, UNAVAILABLE = 503 };
	struct serve *s = ctx;
	struct err err;
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
		if (!str_eq(pages[i].path, request->path))
			continue;
		int r = pages[i].answer(s, ret, &err);
		ret->status = r > 0 ? OK : r == 0 ? UNAVAILABLE : ERROR;
		if (r < 0)
			ret->text = str_fmt("%s: %s\n", err_info(err.code)->name, err.text);
		return;
	}
	ret->status = NOT_FOUND;
	ret->text = str_dup("there is /metrics, /healthz and /readyz\n");
}

static int read_pem(const char *option, const char *path, char **ret, struct err *err)
{
	auto_root struct root here = ROOT_NONE;
	if (root_init(&here, "/", err) < 0)
		return -1;
	auto_str char *dir = *path == '/' ? str_dup("") : getcwd(NULL, 0), *full = str_fmt("%s/%s", dir, path);
	int r = root_read(&here, full, ret, NULL, err);
	if (r == 0)
		err_set(err, E_NOT_FOUND, "there is no %s", path);
	return r > 0 ? 0 : err_wrap(err, "%s", option);
}

// The files of --tls-cert and --tls-key, which somebody renews: an administrator, certbot, or a Secret's volume.
struct tls_files {
	const struct listen_values *option;
	char *certificate, *key;                      // what is served; NULL = no TLS
	char *next_certificate, *next_key;            // what was there at the last look, if it was another one
	char warned[sizeof(((struct err *)0)->text)]; // the last warning: each is given once
	int code;                                     // why it could not be read at the last look
};

static void tls_files_done(struct tls_files *t)
{
	free(t->certificate);
	free(t->key);
	free(t->next_certificate);
	free(t->next_key);
}
#define auto_tls_files __attribute__((cleanup(tls_files_done)))

static int read_tls_files(const struct listen_values *v, char **ret_certificate, char **ret_key, struct err *err)
{
	if (!v->certificate)
		return 0;
	secret_guard();
	if (read_pem("--tls-cert", v->certificate, ret_certificate, err) < 0)
		return -1;
	return read_pem("--tls-key", v->key, ret_key, err);
}

static void warn_once(struct tls_files *t, const char *what, const struct err *why)
{
	if (str_eq(t->warned, why->text))
		return;
	snprintf(t->warned, sizeof(t->warned), "%s", why->text);
	log_warn("%s: %s: %s", what, err_info(why->code)->name, why->text);
}

// 1 = look again soon: files that are being written do not yet belong together, and only those that were the same twice
// are used.
static int look_for_renewal(struct tls_files *t, struct http_server *server)
{
	auto_str char *certificate = NULL, *key = NULL;
	struct err why;
	int r = read_tls_files(t->option, &certificate, &key, &why), code = r < 0 ? why.code : 0;
	bool is_settled =
		code == t->code && (code || (str_eq(certificate, t->next_certificate) && str_eq(key, t->next_key)));
	t->code = code;
	str_set(&t->next_certificate, certificate);
	str_set(&t->next_key, key);
	if (!code && str_eq(certificate, t->certificate) && str_eq(key, t->key)) {
		*t->warned = '\0';
		return 0;
	}
	if (!is_settled)
		return 1;
	if (code) {
		warn_once(t, "a renewed certificate would not be seen, and the one before stays", &why);
	} else if (http_server_renew(server, certificate, key, &why) < 0) {
		warn_once(t, "the renewed certificate is not used, and the one before stays", &why);
	} else {
		str_set(&t->certificate, certificate);
		str_set(&t->key, key);
		*t->warned = '\0';
		log_info("serving the renewed certificate of %s", t->option->certificate);
	}
	return 0;
}

static void wait_for_end(int signals, int parent, struct tls_files *tls, struct http_server *server)
{
	enum { LOOK_MS = 5000, SOON_MS = 500 };
	struct pollfd fds[] = { { .fd = signals, .events = POLLIN }, { .fd = parent, .events = POLLIN } };
	struct signalfd_siginfo info;
	long look_ms = clock_ms() + LOOK_MS;
	do {
		long now = clock_ms(), left = look_ms > now ? look_ms - now : 0;
		poll(fds, ARRAY_SIZE(fds), (int)left);
		if (clock_ms() < look_ms)
			continue;
		http_server_tidy(server);
		look_ms = clock_ms() + (tls->certificate && look_for_renewal(tls, server) ? SOON_MS : LOOK_MS);
	} while (!fds[1].revents && !(read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info) &&
				      info.ssi_signo != SIGPIPE && info.ssi_signo != SIGCHLD));
}

static int run_serve(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_serve struct serve s = SERVE_NONE;
	auto_tls_files struct tls_files tls = { .option = &v->listen };
	auto_http_server struct http_server *server = NULL;
	sigset_t blocked;
	(void)args, (void)count;
	if (!v->listen.certificate != !v->listen.key)
		return err_set(err, E_USAGE, "--tls-cert and --tls-key belong together");
	auto_fd int parent = v->parent ? (int)syscall(SYS_pidfd_open, (pid_t)v->parent, 0) : -1;
	if (v->parent && parent < 0)
		return err_set(err, errno, "--until-exit %u", v->parent);
	if (serve_open(v, &s, err) < 0 || read_tls_files(&v->listen, &tls.certificate, &tls.key, err) < 0)
		return -1;
	const struct http_server_options o = { .listen = v->listen.listen ? v->listen.listen : "9477",
					       .certificate = tls.certificate,
					       .key = tls.key,
					       .answer = answer,
					       .ctx = &s,
					       .head_ms = 15000 };
	if (http_server_open(&o, &server, err) < 0 || (!s.machine.is_recorded && caps_leave(err) < 0))
		return -1;
	service_block(&blocked);
	auto_fd int signals = signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		return err_set(err, errno, "wait for signals");
	if (http_server_start(server, err) < 0)
		return -1;
	auto_str char *url = http_server_url(server);
	log_info("serving %s/metrics, /healthz and /readyz", url);
	wait_for_end(signals, parent, &tls, server);
	return 0;
}

const struct cmd cmd_serve = {
	.name = "serve",
	.help = "metrics and health of this machine over HTTP",
	.about = "/metrics: what the last run, the watcher and a coordinator wrote, for Prometheus. /healthz and\n"
		 "/readyz: 200 or 503 and a line that says why, as `kmodsmith probe liveness` and `probe readiness`\n"
		 "do. It reads files that everybody may read, as the user nobody and without capabilities. `init`,\n"
		 "`watch` and `coordinator` start it where they are given --listen.\n\n"
		 "  kmodsmith serve --listen 9477\n"
		 "  kmodsmith serve --listen :9477 --tls-cert cert.pem --tls-key key.pem\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_serve,
};

int serve_child_open(const struct listen_values *v, const struct opt *const *tables, const void *values,
		     struct service_child *ret, struct err *err)
{
	auto_launch_words struct launch_words words = { 0 };
	auto_str char *address = NULL;
	unsigned port;
	if (!v->listen)
		return v->certificate || v->key ? err_set(err, E_USAGE, "--tls-cert and --tls-key are for --listen") :
						  0;
	if (!v->certificate != !v->key)
		return err_set(err, E_USAGE, "--tls-cert and --tls-key belong together");
	if (http_server_parse(v->listen, &address, &port, err) < 0)
		return -1;
	strv_add(&words.args, str_dup(cmd_serve.name));
	opt_words(tables, values, &cmd_serve, &words.args, &words.env);
	strv_add(&words.args, str_dup("--until-exit"));
	strv_add(&words.args, str_fmt("%d", (int)getpid()));
	service_child_open("the server of metrics", &words, ret);
	return 0;
}
