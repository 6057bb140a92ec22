// SPDX-License-Identifier: Apache-2.0
// The library that each cc1 of a compile is started with (LD_PRELOAD); what it does is told in forkserver.h.
//
// In a cc1 that is to compile, it runs before main() and asks the servers; if one of them has compiled, the process
// ends here, otherwise it goes on as the compiler that it is. In a cc1 that is to serve, it waits in open(), where the
// compiler asks for the file PLACE, and forks.
//
// It is linked with nothing, and takes from the C library of the process only functions that every version has.
#include "kmod/forkserver/directives.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DIR_NAME "/tmp/kmodsmith-forkserver" // private to a sandbox, so nothing in it is older than the compile
#define PLACE "kmodsmith-forkserver."        // PLACE "c": what a server compiles; PLACE N: where it waits, N deep
#define SERVE "FORKSERVER_KEY"               // in the environment of a server: its key
#define SILENT "silent"                      // in its environment: nobody reads what it says
#define LOG "FORKSERVER_LOG"
#define SERVERS "FORKSERVER_MOST" // at most so many
enum {
	FILE_BYTES = 64 << 20,
	IDENTITY_BYTES = 65536,
	NAME_BYTES = 4096,
	ARGS = 2048,
	VARIABLES = 4096,
	KEY_BYTES = 17,
	REQUEST_BYTES = 40,
	REPLY_FD = 198, // of a server that starts
	DEPENDENCIES_FD = 200,
	ACCEPT_MS = 2000,
};
enum { ACCEPTED = 'a', READY = 'r', ENDED = 'e' }; // what a server replies; after ENDED the compiler's status

static void path_of(char ret[NAME_BYTES], const char *what, const char *name)
{
	snprintf(ret, NAME_BYTES, DIR_NAME "/%s.%s", what, name);
}

static int open_file(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
}

static int open_in_dir(const char *what, const char *name, int flags)
{
	char path[NAME_BYTES];
	path_of(path, what, name);
	return open_file(path, flags);
}

static void remove_in_dir(const char *what, const char *name)
{
	char path[NAME_BYTES];
	path_of(path, what, name);
	unlink(path);
}

static bool write_all(int fd, const void *data, size_t len)
{
	for (const char *p = data; len;) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

// The whole file and a NUL; NULL = it cannot be read, or is too large. Takes fd.
static char *read_all(int fd, size_t *ret_len)
{
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	char *text = size >= 0 && size <= FILE_BYTES ? malloc((size_t)size + 1) : NULL;
	size_t len = 0;
	while (text && len < (size_t)size) {
		ssize_t n = pread(fd, text + len, (size_t)size - len, (off_t)len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	if (text && len != (size_t)size) {
		free(text);
		return NULL;
	}
	if (text)
		text[len] = '\0';
	*ret_len = len;
	return text;
}

static bool write_file(int fd, const char *text, size_t len)
{
	bool is_done = fd >= 0 && write_all(fd, text, len);
	if (fd >= 0)
		close(fd);
	return is_done;
}

// True the first time.
static bool mark(const char *what, const char *key)
{
	int fd = open_in_dir(what, key, O_WRONLY | O_CREAT | O_EXCL);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool starts(const char *text, const char *head)
{
	return strncmp(text, head, strlen(head)) == 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

// The compile that asks.
struct compile {
	char **argv, **environment;
	int argc;
	char *source;       // as the compiler was told
	char *output;       // assembler
	char *dependencies; // NULL = none
	char *basename;     // "KBUILD_BASENAME=...", of each object its own; NULL = none
	bool is_silent;     // nobody reads its messages
	char *text;
	size_t len;
	struct directives directives;
	// The working directory and the arguments, without what is each object's own; then the pieces.
	char identity[IDENTITY_BYTES];
	size_t lens[DIRECTIVES_PIECES + 1]; // of the identity of a server that has read so many pieces
	char keys[DIRECTIVES_PIECES + 1][KEY_BYTES];
	char name[REQUEST_BYTES]; // of its requests: no other process of the compile had it
};

// What is not known to be the same in a fork, or needs the name of the file that is compiled.
static bool is_unsupported(const char *arg)
{
	static const char *const heads[] = { "-E",
					     "-M",
					     "-P",
					     "-C",
					     "-x",
					     "-save-temps",
					     "-fpreprocessed",
					     "-fplugin",
					     "-flto",
					     "-fprofile",
					     "-ftest-coverage",
					     "--coverage",
					     "-fdump",
					     "-fstack-usage",
					     "-fcallgraph-info",
					     "-frecord-gcc-switches",
					     "-fverbose-asm",
					     "-fsanitize=kernel-",
					     "-fsanitize=thread",
					     "-traditional",
					     "-include-pch",
					     "@" };
	if (strcmp(arg, "-MMD") == 0 || strcmp(arg, "-MD") == 0)
		return false;
	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)
		if (starts(arg, heads[i]))
			return true;
	return false;
}

static bool add_identity(struct compile *c, const char *text, size_t len)
{
	size_t used = strlen(c->identity);
	if (used + len + 2 > sizeof(c->identity))
		return false;
	memcpy(c->identity + used, text, len);
	c->identity[used + len] = '\n';
	c->identity[used + len + 1] = '\0';
	return true;
}

// FNV-1a. A server's identity is compared, too.
static void make_key(struct compile *c, size_t level)
{
	uint64_t hash = 0xcbf29ce484222325u;
	c->lens[level] = strlen(c->identity);
	for (size_t i = 0; i < c->lens[level]; i++)
		hash = (hash ^ (unsigned char)c->identity[i]) * 0x100000001b3u;
	snprintf(c->keys[level], KEY_BYTES, "%016llx", (unsigned long long)hash);
}

// An option whose value is each object's own and decides nothing about its code.
static bool is_own_value(const char *arg)
{
	static const char *const own[] = { "-o",       "-MMD",           "-MD",          "-dumpdir", "-dumpbase",
					   "-auxbase", "-auxbase-strip", "-dumpbase-ext" };
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (strcmp(arg, own[i]) == 0)
			return true;
	return false;
}

// An option whose value is the next argument, and not the source.
static bool takes_value(const char *arg)
{
	static const char *const options[] = { "-D",         "-U",         "-A",           "-I",
					       "-include",   "-imacros",   "-isystem",     "-iquote",
					       "-idirafter", "-iprefix",   "-iwithprefix", "-iwithprefixbefore",
					       "-isysroot",  "-imultilib", "-imultiarch",  "-param",
					       "--param" };
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (strcmp(arg, options[i]) == 0)
			return true;
	return false;
}

// False = not a compile of one C source that a fork is known to do as well.
static bool read_arguments(struct compile *c)
{
	const char *debug = "-g0";
	char messages[64] = "", cwd[NAME_BYTES];
	if (c->argc >= ARGS || !getcwd(cwd, sizeof(cwd)) || !add_identity(c, cwd, strlen(cwd)))
		return false;
	for (int i = 1; i < c->argc; i++) {
		char *arg = c->argv[i], *next = i + 1 < c->argc ? c->argv[i + 1] : NULL;
		size_t len = strlen(arg);
		if (is_unsupported(arg))
			return false;
		if (starts(arg, "-g"))
			debug = arg;
		if (next && is_own_value(arg)) {
			if (strcmp(arg, "-o") == 0)
				c->output = next;
			else if (starts(arg, "-M"))
				c->dependencies = next;
			i++;
		} else if (next && strcmp(arg, "-D") == 0 && starts(next, "KBUILD_BASENAME=")) {
			c->basename = next;
			i++;
		} else if (*arg != '-' && !takes_value(c->argv[i - 1])) {
			if (c->source)
				return false;
			c->source = arg;
			len = (size_t)(base_name(arg) - arg);
		}
		if (!add_identity(c, arg, len))
			return false;
	}
	c->is_silent =
		readlink("/proc/self/fd/2", messages, sizeof(messages) - 1) > 0 && strcmp(messages, "/dev/null") == 0;
	struct timespec now = { 0 };
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(c->name, sizeof(c->name), "%d.%lld.%ld", (int)getpid(), (long long)now.tv_sec, now.tv_nsec);
	size_t len = c->source ? strlen(c->source) : 0;
	return (!c->is_silent || add_identity(c, SILENT, strlen(SILENT))) && len > 2 &&
	       strcmp(c->source + len - 2, ".c") == 0 && !strpbrk(c->source, "\"\\\n") && c->output &&
	       strcmp(c->output, "-") != 0 && strcmp(debug, "-g0") == 0 && !getenv("DEPENDENCIES_OUTPUT") &&
	       !getenv("SUNPRO_DEPENDENCIES");
}

// The source, and what of it a server may have read. The identity has the arguments.
static bool read_pieces(struct compile *c, const char *source)
{
	c->text = read_all(open_file(source, O_RDONLY), &c->len);
	if (!c->text || strlen(c->text) != c->len) {
		free(c->text);
		return false;
	}
	directives_read(c->text, c->len, &c->directives);
	make_key(c, 0);
	for (size_t i = 0; i < c->directives.count; i++) {
		if (!add_identity(c, c->directives.text + c->directives.pieces[i].at, c->directives.pieces[i].len)) {
			c->directives.count = i;
			break;
		}
		make_key(c, i + 1);
	}
	return true;
}

// -1 = there is none that has read this.
static int open_server(const struct compile *c, size_t level)
{
	size_t len = 0;
	int fd = open_in_dir(level ? "server" : "first", c->keys[level], O_WRONLY | O_NONBLOCK);
	if (fd < 0)
		return -1;
	char *identity = read_all(open_in_dir("identity", c->keys[level], O_RDONLY), &len);
	bool is_same = identity && len == c->lens[level] && memcmp(identity, c->identity, len) == 0;
	free(identity);
	if (is_same)
		return fd;
	close(fd);
	return -1;
}

// The one that has read the most, *level pieces or fewer.
static int find_server(const struct compile *c, size_t *level)
{
	for (;; --*level) {
		int fd = open_server(c, *level);
		if (fd >= 0 || !*level)
			return fd;
	}
}

static int open_reply(const struct compile *c)
{
	char path[NAME_BYTES];
	path_of(path, "reply", c->name);
	unlink(path);
	return mkfifo(path, 0600) < 0 ? -1 : open_file(path, O_RDONLY | O_NONBLOCK);
}

// False = nothing came in time, or who would write it is gone.
static bool wait_byte(int fd, int timeout_ms, unsigned char *ret)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int r = poll(&p, 1, timeout_ms);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		ssize_t n = read(fd, ret, 1);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		return n == 1;
	}
}

// A request is a file, "grow KEY" or "compile", a newline and the text to read; the server is told the request's name.
// It has accepted once it has the reply's other end: from then on the end of the reply tells that it, or who compiles
// for it, is gone.
static bool ask(const struct compile *c, int server, const char *what, const char *text, size_t len, unsigned char want,
		unsigned char *ret_status)
{
	int reply = open_reply(c), fd = open_in_dir("request", c->name, O_WRONLY | O_CREAT | O_TRUNC);
	unsigned char byte = 0;
	bool is_done = reply >= 0 && fd >= 0 && write_all(fd, what, strlen(what)) && write_all(fd, "\n", 1) &&
		       write_all(fd, text, len) && write(server, c->name, sizeof(c->name)) == sizeof(c->name) &&
		       wait_byte(reply, ACCEPT_MS, &byte) && byte == ACCEPTED && wait_byte(reply, -1, &byte) &&
		       byte == want && (!ret_status || wait_byte(reply, -1, ret_status));
	if (fd >= 0)
		close(fd);
	if (reply >= 0)
		close(reply);
	remove_in_dir("request", c->name);
	remove_in_dir("reply", c->name);
	return is_done;
}

static bool put_identity(const struct compile *c, size_t level)
{
	return write_file(open_in_dir("identity", c->keys[level], O_WRONLY | O_CREAT | O_TRUNC), c->identity,
			  c->lens[level]);
}

// A server has no name of its own: whatever asks for it while it reads is an error, and the end of it.
#define NAMELESS "a server of kmodsmith has no name"
static char OWN_NAME[] = "KBUILD_BASENAME=_Pragma(\"GCC error \\\"" NAMELESS "\\\"\")",
	    OWN_FILE[] = "__BASE_FILE__=_Pragma(\"GCC error \\\"" NAMELESS "\\\"\")";

static void __attribute__((noreturn)) become_server(const struct compile *c, int reply)
{
	static char main_name[NAME_BYTES], output[NAME_BYTES], dependencies[64], variable[64],
		dump_base[] = PLACE "c", define[] = "-D", no_warning[] = "-Wno-builtin-macro-redefined",
		*argv[ARGS + 8], *environment[VARIABLES];
	size_t count = 0, variables = 0;
	int null = open_file("/dev/null", O_RDWR),
	    messages = open_in_dir("messages", c->keys[0], O_RDWR | O_CREAT | O_TRUNC | O_APPEND);
	snprintf(main_name, sizeof(main_name), "%.*s" PLACE "c", (int)(base_name(c->source) - c->source), c->source);
	snprintf(dependencies, sizeof(dependencies), "/proc/self/fd/%d", DEPENDENCIES_FD);
	snprintf(variable, sizeof(variable), SERVE "=%s%s", c->keys[0], c->is_silent ? SILENT : "");
	path_of(output, "output", c->keys[0]);
	for (int i = 0; i < c->argc; i++) {
		char *arg = c->argv[i];
		argv[count++] = arg == c->source                              ? main_name :
				arg == c->output                              ? output :
				arg == c->dependencies                        ? dependencies :
				arg == c->basename                            ? OWN_NAME :
				i && strcmp(c->argv[i - 1], "-dumpbase") == 0 ? dump_base :
										arg;
	}
	argv[count++] = define;
	argv[count++] = OWN_FILE;
	argv[count] = no_warning;
	for (char **e = c->environment; *e && variables + 2 < VARIABLES; e++)
		environment[variables++] = *e;
	environment[variables] = variable;
	if (null < 0 || messages < 0 || dup2(reply, REPLY_FD) < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
	    dup2(messages, 2) < 0)
		_exit(255);
	for (int fd = 3; fd < 1024; fd++) // somebody may wait for the end of a pipe
		if (fd != REPLY_FD)
			close(fd);
	execve("/proc/self/exe", argv, environment);
	_exit(255);
}

// The first server for these arguments, which has read nothing but what they include.
static bool start_server(const struct compile *c)
{
	unsigned char byte = 0;
	int reply = open_reply(c), other = open_in_dir("reply", c->name, O_WRONLY);
	remove_in_dir("reply", c->name);
	pid_t pid = reply < 0 || other < 0 || !put_identity(c, 0) ? -1 : fork();
	if (pid == 0)
		become_server(c, other);
	if (other >= 0)
		close(other);
	bool is_ready = pid > 0 && wait_byte(reply, -1, &byte) && byte == READY;
	if (reply >= 0)
		close(reply);
	return is_ready;
}

// Ends the server that was asked for least recently, when there are too many: a write changes the time of its pipe. The
// first ones, from which all others grow, are small, and stay.
static void make_room(const char *asked)
{
	static const char HEAD[] = "server.";
	char path[NAME_BYTES], oldest[NAME_BYTES] = "";
	size_t count = 0, most = 0;
	int64_t least = INT64_MAX;
	for (const char *p = getenv(SERVERS); p && *p >= '0' && *p <= '9'; p++)
		most = most * 10 + (size_t)(*p - '0');
	DIR *dir = opendir(DIR_NAME);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		struct statx st;
		if (!starts(e->d_name, HEAD) || strcmp(e->d_name + strlen(HEAD), asked) == 0)
			continue;
		snprintf(path, sizeof(path), DIR_NAME "/%s", e->d_name);
		if (syscall(SYS_statx, AT_FDCWD, path, 0, STATX_MTIME, &st) != 0)
			continue;
		count++;
		int64_t time = st.stx_mtime.tv_sec * 1000000000 + st.stx_mtime.tv_nsec;
		if (time >= least)
			continue;
		least = time;
		memcpy(oldest, path, sizeof(oldest));
	}
	if (dir)
		closedir(dir);
	char none[REQUEST_BYTES] = "";
	int fd = most && count >= most ? open_file(oldest, O_WRONLY | O_NONBLOCK) : -1;
	if (fd >= 0 && write(fd, none, sizeof(none)) == sizeof(none)) {
		unlink(oldest);
		remove_in_dir("started", base_name(oldest) + strlen(HEAD)); // it may be worth another one
	}
	if (fd >= 0)
		close(fd);
}

// Which beginnings the other sources of the directory share, if they are compiled with the same arguments.
static void mark_shared(const struct compile *c)
{
	static struct compile other;
	char path[NAME_BYTES];
	int dir_len = (int)(base_name(c->source) - c->source);
	snprintf(path, sizeof(path), "%.*s.", dir_len, c->source);
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		size_t len = strlen(e->d_name);
		if (len < 3 || strcmp(e->d_name + len - 2, ".c") != 0)
			continue;
		memcpy(other.identity, c->identity, c->lens[0]);
		other.identity[c->lens[0]] = '\0';
		snprintf(path, sizeof(path), "%.*s%s", dir_len, c->source, e->d_name);
		if (!read_pieces(&other, path))
			continue;
		for (size_t i = 0; i <= other.directives.count; i++)
			if (!mark("once", other.keys[i]))
				mark("shared", other.keys[i]);
		free(other.text);
	}
	if (dir)
		closedir(dir);
}

// Returns how many of its pieces another compile will begin with, too. Nothing predicts that for conftest's compiles;
// most of them share nearly all.
static bool is_shared(const struct compile *c, size_t *ret_level)
{
	char path[NAME_BYTES];
	*ret_level = c->directives.count;
	if (c->is_silent)
		return true;
	if (mark("listed", c->keys[0]))
		mark_shared(c);
	for (;; --*ret_level) {
		path_of(path, "shared", c->keys[*ret_level]);
		if (access(path, F_OK) == 0 || !*ret_level)
			return access(path, F_OK) == 0;
	}
}

// A server for this compile, which has read *ret_level of its pieces: where there is none yet, it grows from one that
// has read less. Nobody waits for what another compile is about to start: it goes on with less, or alone. What was
// tried once without success is not tried again.
static int get_server(const struct compile *c, size_t *ret_level)
{
	char what[64];
	size_t wanted = 0;
	if (!is_shared(c, &wanted))
		return -1;
	*ret_level = wanted;
	int fd = find_server(c, ret_level);
	if (fd < 0 && mark("started", c->keys[0]) && start_server(c))
		fd = open_server(c, 0);
	while (fd >= 0 && *ret_level < wanted) {
		size_t next = *ret_level + 1;
		if (!mark("started", c->keys[next]) || !put_identity(c, next))
			break;
		make_room(c->keys[*ret_level]);
		snprintf(what, sizeof(what), "grow %s", c->keys[next]);
		int deeper = ask(c, fd, what, c->directives.text + c->directives.pieces[next - 1].at,
				 c->directives.pieces[next - 1].len, READY, NULL) ?
				     open_server(c, next) :
				     -1;
		if (deeper < 0)
			break;
		close(fd);
		fd = deeper;
		*ret_level = next;
	}
	return fd;
}

// The names that a compile alone would have told, in place of the server's. False = the output has an unknown form.
static bool put_output(const struct compile *c)
{
	static const char NAME[] = "\t.file\t\"" PLACE "c\"";
	size_t len = 0;
	char *text = read_all(open_in_dir("output", c->name, O_RDONLY), &len), *at = text ? strstr(text, NAME) : NULL;
	bool is_known = at && strlen(text) == len && !strstr(at + strlen(NAME), PLACE);
	int fd = is_known ? open_file(c->output, O_WRONLY | O_CREAT | O_TRUNC) : -1;
	bool is_done = fd >= 0 && write_all(fd, text, (size_t)(at - text)) && write_all(fd, "\t.file\t\"", 8) &&
		       write_all(fd, base_name(c->source), strlen(base_name(c->source))) &&
		       write_all(fd, at + strlen(NAME) - 1, len - (size_t)(at - text) - strlen(NAME) + 1);
	if (fd >= 0)
		close(fd);
	free(text);
	return is_done;
}

// "TARGET: NAME NAME \", lines of them. A file that a server waits at is no file.
static bool put_dependencies(const struct compile *c)
{
	size_t len = 0, used = 0;
	char *text = read_all(open_in_dir("dependencies", c->name, O_RDONLY), &len);
	size_t room = len * 2 + 2 * strlen(c->source) + 16;
	char *out = text ? malloc(room) : NULL;
	for (char *p = text; out && *p;) {
		if (*p == '\n' || *p == ' ' || (*p == '\\' && p[1] == '\n')) {
			p += *p == '\\' ? 2 : 1;
			continue;
		}
		size_t word = 0;
		while (p[word] && p[word] != '\n' && p[word] != ' ')
			word += p[word] == '\\' && p[word + 1] ? 2 : 1;
		bool is_target = p[word - 1] == ':';
		const char *name = p + word;
		while (name > p && name[-1] != '/')
			name--;
		const char *lead = used ? " \\\n " : "";
		if (!starts(name, PLACE))
			used += (size_t)snprintf(out + used, room - used, "%s%.*s", lead, (int)word, p);
		else if (is_target)
			used += (size_t)snprintf(out + used, room - used, "%s%.*so:", lead,
						 (int)strlen(base_name(c->source)) - 1, base_name(c->source));
		else if (name[strlen(PLACE)] == 'c')
			used += (size_t)snprintf(out + used, room - used, "%s%s", lead, c->source);
		p += word;
	}
	bool is_done = out && used + 1 < room;
	if (is_done) {
		out[used++] = '\n';
		is_done = write_file(open_file(c->dependencies, O_WRONLY | O_CREAT | O_TRUNC), out, used);
	}
	free(out);
	free(text);
	return is_done;
}

// 0 or 1 = this is how the compiler ended; 2 = compile alone.
static int compile_by_server(struct compile *c)
{
	size_t level = 0, said = 0;
	unsigned char status = 2;
	int fd = get_server(c, &level);
	if (fd < 0)
		return 2;
	size_t at = level ? c->directives.pieces[level - 1].rest : 0,
	       line = level ? c->directives.pieces[level - 1].rest_line : 1;
	size_t room = c->len - at + 3 * strlen(c->source) + 1024 + (c->basename ? strlen(c->basename) : 0);
	char *text = malloc(room);
	int n = 0;
	if (text && c->basename)
		n = snprintf(text, room, "#undef KBUILD_BASENAME\n#define KBUILD_BASENAME %s\n",
			     strchr(c->basename, '=') + 1);
	if (text)
		n += snprintf(text + n, room - (size_t)n,
			      "#undef __BASE_FILE__\n#define __BASE_FILE__ \"%s\"\n#line %zu \"%s\"\n%s", c->source,
			      line, c->source, c->text + at);
	bool is_done = text && ask(c, fd, "compile", text, (size_t)n, ENDED, &status);
	char *messages = read_all(open_in_dir("messages", c->name, O_RDONLY), &said);
	// Of a compile that nobody hears, the status is all that counts: 1 has to be for what the source says, and not
	// for a full disk.
	if (!is_done || status > 1 || !messages || (!c->is_silent && (status || said)) ||
	    (status && (!strstr(messages, "error: ") || strstr(messages, "error writing"))) ||
	    (!status && (!put_output(c) || (c->dependencies && !put_dependencies(c)))))
		status = 2;
	remove_in_dir("output", c->name);
	remove_in_dir("dependencies", c->name);
	remove_in_dir("messages", c->name);
	close(fd);
	free(messages);
	free(text);
	return status;
}

// The server.
static struct {
	bool is_serving, is_silent;
	char key[KEY_BYTES];
	char output[NAME_BYTES]; // of the first one: what the compiler has open
	int reply;               // who waits until it is ready; -1 = nobody
	unsigned depth;
} server;

// The files that a server has read, as they were then.
struct seen {
	char *path;
	struct statx st;
};
static struct seen *seen;
static size_t seen_count, seen_room;

static bool get_state(const char *path, struct statx *ret)
{
	memset(ret, 0, sizeof(*ret));
	return syscall(SYS_statx, AT_FDCWD, path, 0, STATX_BASIC_STATS, ret) == 0;
}

static void remember(const char *path)
{
	if (seen_count == seen_room) {
		seen_room = seen_room ? 2 * seen_room : 256;
		struct seen *more = realloc(seen, seen_room * sizeof(*more));
		if (!more)
			_exit(255);
		seen = more;
	}
	if (!(seen[seen_count].path = strdup(path)) || !get_state(path, &seen[seen_count].st))
		_exit(255);
	seen_count++;
}

// A file that was made or written after the server had read it is another one.
static bool is_stale(void)
{
	for (size_t i = 0; i < seen_count; i++) {
		const struct statx *then = &seen[i].st;
		struct statx now;
		if (!get_state(seen[i].path, &now) || now.stx_ino != then->stx_ino || now.stx_size != then->stx_size ||
		    now.stx_mtime.tv_sec != then->stx_mtime.tv_sec ||
		    now.stx_mtime.tv_nsec != then->stx_mtime.tv_nsec ||
		    now.stx_ctime.tv_sec != then->stx_ctime.tv_sec || now.stx_ctime.tv_nsec != then->stx_ctime.tv_nsec)
			return true;
	}
	return false;
}

// A file in memory, at its beginning.
static int memory_file(const char *text, size_t len)
{
	int fd = (int)syscall(SYS_memfd_create, "kmodsmith", 0);
	if (fd < 0 || !write_all(fd, text, len) || lseek(fd, 0, SEEK_SET) != 0)
		_exit(255);
	return fd;
}

static int place_file(const char *text, size_t len)
{
	char *all = malloc(len + NAME_BYTES);
	if (!all)
		_exit(255);
	memcpy(all, text, len);
	int n = snprintf(all + len, NAME_BYTES, "#include \"" PLACE "%u\"\n", server.depth);
	int fd = memory_file(all, len + (size_t)n);
	free(all);
	return fd;
}

// Where the compiler writes assembler.
static int output_fd(void)
{
	char link[64], path[NAME_BYTES];
	for (int fd = 3; fd < 64; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		ssize_t n = readlink(link, path, sizeof(path) - 1);
		path[n < 0 ? 0 : n] = '\0';
		if (strcmp(path, server.output) == 0)
			return fd;
	}
	_exit(255);
}

static void redirect(int from, int to)
{
	if (from < 0 || dup2(from, to) < 0)
		_exit(255);
	close(from);
}

// From here on this process is a compiler that has read the pieces itself.
static int begin_compile(const char *name, const char *text, size_t len)
{
	enum { FRESH = O_RDWR | O_CREAT | O_TRUNC };
	server.is_serving = false;
	signal(SIGPIPE, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	redirect(open_in_dir("output", name, FRESH), output_fd());
	redirect(open_in_dir("dependencies", name, FRESH), DEPENDENCIES_FD);
	redirect(open_in_dir("messages", name, FRESH | O_APPEND), 2);
	return memory_file(text, len);
}

// Called as the compiler ends, when all that it wrote is closed. A killed child reports nothing; its client then
// compiles by itself.
static void tell_status(int status, void *reply)
{
	unsigned char bytes[] = { ENDED, (unsigned char)status };
	write_all((int)(intptr_t)reply, bytes, sizeof(bytes));
}

// The child that accepted a request: a compiler, or the next server. Returns the file that it reads on from.
static int answer(const char *name, int reply, char *text, size_t len)
{
	static const char GROW[] = "grow ";
	char *rest = strchr(text, '\n');
	if (!rest)
		_exit(255);
	*rest++ = '\0';
	len -= (size_t)(rest - text);
	if (!starts(text, GROW)) {
		if (on_exit(tell_status, (void *)(intptr_t)reply) != 0)
			_exit(255);
		return begin_compile(name, rest, len);
	}
	snprintf(server.key, sizeof(server.key), "%s", text + strlen(GROW));
	server.reply = reply;
	server.depth++;
	redirect(open_in_dir("messages", server.key, O_RDWR | O_CREAT | O_TRUNC | O_APPEND), 2);
	return place_file(rest, len);
}

// Called by the compiler for the file where it is to wait; returns in its children alone.
static int serve(void)
{
	char path[NAME_BYTES];
	path_of(path, server.depth ? "server" : "first", server.key);
	size_t len = 0;
	char *messages = read_all(open_in_dir("messages", server.key, O_RDONLY), &len);
	// A server that had something to say would say it once, where every compile should; and with an error each of
	// them would fail.
	if (!messages || (len && !server.is_silent) || strstr(messages, "error: ") || strstr(messages, NAMELESS) ||
	    lseek(output_fd(), 0, SEEK_CUR) != 0 || mkfifo(path, 0600) < 0)
		_exit(255);
	free(messages);
	char name[REQUEST_BYTES];
	int requests = open_file(path, O_RDWR);
	unsigned char ready = READY;
	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (requests < 0)
		_exit(255);
	write_all(server.reply, &ready, 1);
	close(server.reply);
	for (;;) {
		ssize_t n = read(requests, name, sizeof(name));
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(name) || !*name)
			_exit(0);
		int reply = open_in_dir("reply", name, O_WRONLY | O_NONBLOCK);
		unsigned char accepted = ACCEPTED;
		char *text = read_all(open_in_dir("request", name, O_RDONLY), &len);
		if (reply >= 0 && text && write_all(reply, &accepted, 1) && is_stale()) {
			unlink(path);
			_exit(0);
		}
		if (reply >= 0 && text && fork() == 0) {
			close(requests);
			return answer(name, reply, text, len);
		}
		free(text);
		if (reply >= 0)
			close(reply);
	}
}

static int open_any(const char *path, int flags, unsigned mode)
{
	const char *name = base_name(path);
	if (!server.is_serving || !starts(name, PLACE)) {
		int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
		if (server.is_serving && fd >= 0)
			remember(path);
		return fd;
	}
	return name[strlen(PLACE)] == 'c' ? place_file("", 0) : serve();
}

int preload_open(const char *path, int flags, ...) __asm__("open");
int preload_open64(const char *path, int flags, ...) __asm__("open64");

int preload_open(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	unsigned mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, unsigned) : 0;
	va_end(args);
	return open_any(path, flags, mode);
}

int preload_open64(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	unsigned mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, unsigned) : 0;
	va_end(args);
	return open_any(path, flags, mode);
}

static void write_log(const char *line)
{
	const char *path = getenv(LOG);
	write_file(path ? open_file(path, O_WRONLY | O_CREAT | O_APPEND) : -1, line, strlen(line));
}

static void __attribute__((constructor)) begin(int argc, char **argv, char **environment)
{
	static struct compile compile;
	const char *key = getenv(SERVE);
	if (key) {
		server.is_serving = true;
		server.reply = REPLY_FD;
		snprintf(server.key, sizeof(server.key), "%s", key); // cut at its length
		server.is_silent = strcmp(key + strlen(server.key), SILENT) == 0;
		path_of(server.output, "output", server.key);
		return;
	}
	compile.argc = argc;
	compile.argv = argv;
	compile.environment = environment;
	if ((mkdir(DIR_NAME, 0700) < 0 && errno != EEXIST) || !read_arguments(&compile) ||
	    !read_pieces(&compile, compile.source))
		return;
	void (*on_pipe)(int) = signal(SIGPIPE, SIG_IGN); // a server may end at any time
	int status = compile_by_server(&compile);
	signal(SIGPIPE, on_pipe);
	write_log(status == 2 ? "alone\n" : "forked\n");
	if (status != 2)
		_exit(status);
}
