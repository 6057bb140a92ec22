// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/probes.h"

#include "base/core/date.h"
#include "base/file/copy.h"

#include <ctype.h>
#include <fnmatch.h>
#include <time.h>

// NVIDIA's conftest.sh as far as it has to be understood to know when one of its probes is the same as another
// version's: compile_test() is one long `case`, an arm for each probe; everything else is shared by all of them.
#define FUNCTION "\ncompile_test() {\n"
enum { INDENT = 8 }; // of an arm, at most: they are not all alike

struct arm {
	char *patterns; // "a | b_*"
	const char *text;
	size_t len;
};

struct script {
	char *text;
	struct arm *arms;
	size_t count;
	struct strv present; // macros that header tests decide
	// Of what all probes share: the rest of it, and the lines of Kbuild that make flags.
	char common[DIGEST_HEX + 1];
};

static void script_done(struct script *s)
{
	for (size_t i = 0; s && i < s->count; i++)
		free(s->arms[i].patterns);
	if (s) {
		free(s->arms);
		free(s->text);
		strv_done(&s->present);
	}
	free(s);
}

// "        name)", and nothing that is a command.
static char *patterns_of(const char *line, size_t len)
{
	size_t at = strspn(line, " \t");
	if (!at || at > INDENT || len < at + 2 || line[len - 1] != ')')
		return NULL;
	for (size_t i = at; i < len - 1; i++)
		if (!isalnum((unsigned char)line[i]) && !strchr("_*| ", line[i]))
			return NULL;
	return str_ndup(line + at, len - 1 - at);
}

// A probe's own `case` is indented further. Where the end of an arm is missed, its text is too long, which only makes
// two versions differ.
static void split_arms(struct script *s, const char *from, const char *end)
{
	struct arm open = { 0 };
	for (const char *line = from; line < end; line += strcspn(line, "\n") + 1) {
		size_t len = strcspn(line, "\n"), at = strspn(line, " \t");
		if (!open.patterns) {
			open = (struct arm){ .patterns = patterns_of(line, len), .text = line };
		} else if (at <= INDENT && len == at + 2 && strncmp(line + at, ";;", 2) == 0) {
			open.len = (size_t)(line - open.text);
			s->arms = mem_grow(s->arms, s->count + 1, sizeof(open));
			s->arms[s->count++] = open;
			open = (struct arm){ 0 };
		}
	}
	free(open.patterns);
}

// For each of the header tests' macros that a text names: is the test made?
static void add_present(const struct script *s, struct digest *d, const char *text, size_t len)
{
	static const char HEAD[] = "NV_", TAIL[] = "_PRESENT";
	for (const char *p = text, *end = text + len; p < end; p++) {
		if (strncmp(p, HEAD, strlen(HEAD)) != 0)
			continue;
		size_t word = 0;
		while (p + word < end && (isalnum((unsigned char)p[word]) || p[word] == '_'))
			word++;
		auto_str char *name = str_ndup(p, word);
		if (str_ends(name, TAIL))
			digest_add(d, strv_has(&s->present, name) ? "1" : "0", 1);
		p += word - 1;
	}
}

// The headers that the source's lists name, and the lines that make flags: a list that is too long only makes two
// versions differ.
static void read_lists(const struct root *source, struct script *s, struct digest *d)
{
	static const char *const files[] = { "Kbuild", "header-presence-tests.mk" };
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		auto_str char *text = NULL;
		auto_strv struct strv words = { 0 }, lines = { 0 };
		struct err absent;
		if (root_read(source, files[i], &text, NULL, &absent) <= 0)
			continue;
		strv_split(&words, text, " \t\n\\");
		for (size_t k = 0; k < words.count; k++) {
			char *name = words.items[k];
			if (!str_ends(name, ".h"))
				continue;
			for (char *c = name; *c; c++) // as conftest.sh does: tr '/.\-a-z' '___A-Z'
				*c = (char)(isalnum((unsigned char)*c) ? toupper((unsigned char)*c) : '_');
			strv_add(&s->present, str_fmt("NV_%s_PRESENT", name));
		}
		strv_split(&lines, text, "\n");
		for (size_t k = 0; k < lines.count; k++) {
			const char *line = lines.items[k];
			if ((strstr(line, "flags") || strstr(line, "FLAGS")) && !strstr(line, "NV_VERSION_STRING"))
				digest_add(d, line, strlen(line) + 1);
		}
	}
}

// Of a source with conftest.sh and Kbuild; NULL = it has none, or an unknown form.
static struct script *script_read(const struct root *source)
{
	struct script *s = mem_alloc(sizeof(*s));
	struct err absent;
	char *function = NULL, *end = NULL;
	if (root_read(source, "conftest.sh", &s->text, NULL, &absent) > 0)
		function = strstr(s->text, FUNCTION);
	if (function)
		end = strstr(function + strlen(FUNCTION), "\n}\n");
	if (end)
		split_arms(s, function + strlen(FUNCTION), end);
	if (!s->count) {
		script_done(s);
		return NULL;
	}
	struct digest *d = digest_new();
	digest_add(d, s->text, (size_t)(function - s->text));
	digest_add(d, end, strlen(end));
	read_lists(source, s, d);
	add_present(s, d, s->text, (size_t)(function - s->text));
	digest_hex(d, s->common);
	return s;
}

static bool is_arm_of(const struct arm *arm, const char *name)
{
	auto_strv struct strv patterns = { 0 };
	strv_split(&patterns, arm->patterns, "| ");
	for (size_t i = 0; i < patterns.count; i++)
		if (!str_eq(patterns.items[i], "*") && fnmatch(patterns.items[i], name, 0) == 0)
			return true;
	return false;
}

// Digest of what is one probe's own: its arm, and whether the header tests that it relies on are made. name: of a probe
// or a header ("linux/mm.h"). False = there is no such probe.
static bool script_probe(const struct script *s, const char *name, char ret[DIGEST_HEX + 1])
{
	const struct arm *arm = NULL;
	if (strchr(name, '.')) {
		digest_data(name, strlen(name), ret);
		return true;
	}
	for (size_t i = 0; i < s->count && !arm; i++)
		if (is_arm_of(&s->arms[i], name))
			arm = &s->arms[i];
	if (!arm)
		return false;
	struct digest *d = digest_new();
	digest_add(d, arm->text, arm->len);
	add_present(s, d, arm->text, arm->len);
	digest_hex(d, ret);
	return true;
}

#define DIR "probes"
#define HEAD "kmodsmith probes 1"
enum { SAVE_MS = 1000, ANSWER_BYTES = 8192, MOST = 8192 };

// The file itself is in the program.
__asm__(".pushsection .rodata\nprobes_ask: .incbin \"kmod/build/ask.sh\"\nprobes_ask_end:\n.popsection");
extern const char probes_ask[] EMBEDDED, probes_ask_end[] EMBEDDED;

struct probe {
	char *name, *answer; // lines
	char digest[DIGEST_HEX + 1];
};

static void free_known(struct probes *p)
{
	for (size_t i = 0; i < p->known_count; i++) {
		free(p->known[i].name);
		free(p->known[i].answer);
	}
	free(p->known);
	free(p->known_flags);
	p->known = NULL;
	p->known_count = 0;
	p->known_flags = NULL;
}

void probes_done(struct probes *p)
{
	free_known(p);
	script_done(p->script);
	*p = (struct probes){ 0 };
}

int probes_shorten(const struct root *source, struct err *err)
{
	// $$: a `#` in the flags begins no comment. `always` is what kernels before 5.5 know.
	static const char ADDED[] =
		"\n$(eval kmodsmith_flags = $(value NV_CONFTEST_CFLAGS))\n"
		"NV_CONFTEST_CFLAGS = $(eval NV_CONFTEST_CFLAGS := $$(kmodsmith_flags))$(NV_CONFTEST_CFLAGS)\n"
		"ifdef " PROBES_ONLY "\n"
		"obj-m :=\n"
		"always-y := $(patsubst $(obj)/%,%,$(NV_CONFTEST_HEADERS))\n"
		"always := $(always-y)\n"
		"endif\n";
	auto_str char *text = NULL;
	int r = root_read(source, "Kbuild", &text, NULL, err);
	if (r <= 0 || !strstr(text, "\nNV_CONFTEST_CFLAGS "))
		return r < 0 ? -1 : 0;
	str_add(&text, "%s", ADDED);
	return root_put(source, "Kbuild", text, strlen(text), 0644, err) < 0 ? -1 : 1;
}

// Debian's packaging and NVIDIA's list of changes are for people.
static enum copy_counts what_asks(void *script, const char *path)
{
	static const char *const compiled[] = { ".c", ".S", ".o_binary" };
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	if (str_eq(path, "debian") || str_eq(path, "NVIDIA_Changelog"))
		return COPY_NOTHING;
	if (str_ends(name, ".h"))
		return strstr(script, name) ? COPY_CONTENT : COPY_NAME;
	for (size_t i = 0; i < ARRAY_SIZE(compiled); i++)
		if (str_ends(name, compiled[i]))
			return COPY_NAME;
	return COPY_CONTENT;
}

int probes_digest(const struct root *source, char ret[DIGEST_HEX + 1], struct err *err)
{
	auto_str char *script = NULL;
	if (root_read(source, "conftest.sh", &script, NULL, err) < 0)
		return -1;
	return copy_digest_of(source, script ? what_asks : NULL, script, ret, err);
}

static void add_answer(struct probes *p, char *take_name, const char *digest, char *take_answer)
{
	struct probe probe = { .name = take_name, .answer = take_answer };
	memcpy(probe.digest, digest, sizeof(probe.digest));
	p->known = mem_grow(p->known, p->known_count + 1, sizeof(probe));
	p->known[p->known_count++] = probe;
}

// Lines: the head; "flags ..."; for each probe "probe NAME DIGEST" and its answer, each line after a blank.
static void parse_answers(struct probes *p, char *text)
{
	char *rest = text, *line, *name = NULL, *answer = NULL, digest[DIGEST_HEX + 1] = "";
	bool is_first = true;
	while ((line = strsep(&rest, "\n"))) {
		if (is_first && !str_eq(line, HEAD))
			return;
		is_first = false;
		if (*line == ' ' && name) {
			str_add(&answer, "%s\n", line + 1);
			continue;
		}
		if (name)
			add_answer(p, TAKE(name), digest, answer ? TAKE(answer) : str_dup(""));
		char *blank = str_starts(line, "probe ") ? strrchr(line, ' ') : NULL;
		if (str_starts(line, "flags "))
			p->known_flags = str_dup(line + strlen("flags "));
		else if (blank && blank > line + strlen("probe") && digest_is_hex(blank + 1)) {
			name = str_ndup(line + strlen("probe "), (size_t)(blank - line) - strlen("probe "));
			memcpy(digest, blank + 1, sizeof(digest));
		}
	}
	if (name)
		add_answer(p, TAKE(name), digest, answer ? TAKE(answer) : str_dup(""));
}

// A file ends with a digest of all before it.
static void load_answers(struct probes *p)
{
	enum { TAIL = DIGEST_HEX + 1 }; // and a newline
	auto_str char *path = str_fmt(DIR "/%s", p->name), *text = NULL;
	char hex[DIGEST_HEX + 1];
	size_t len = 0;
	struct err absent;
	if (root_read(p->cache, path, &text, &len, &absent) <= 0 || len < TAIL || strlen(text) != len ||
	    text[len - 1] != '\n')
		return;
	digest_data(text, len - TAIL, hex);
	if (strncmp(text + len - TAIL, hex, DIGEST_HEX) != 0)
		return;
	text[len - TAIL] = '\0';
	parse_answers(p, text);
}

static int put_job_file(const struct probes *p, const char *path, const char *text, size_t len, mode_t mode,
			struct err *err)
{
	auto_str char *parent = str_ndup(path, (size_t)(strrchr(path, '/') - path));
	return root_mkdirs(p->job, parent, 0755, err) < 0 ? -1 : root_put(p->job, path, text, len, mode, err);
}

// What is known of this very text, where the script looks for it.
static int put_probe_files(struct probes *p, struct err *err)
{
	if (root_mkdirs(p->job, DIR "/new", 0755, err) < 0 || root_mkdirs(p->job, DIR "/used", 0755, err) < 0)
		return -1;
	if (p->known_flags &&
	    put_job_file(p, DIR "/known.flags", p->known_flags, strlen(p->known_flags), 0644, err) < 0)
		return -1;
	for (size_t i = 0; i < p->known_count && p->known_flags; i++) {
		const struct probe *probe = &p->known[i];
		char digest[DIGEST_HEX + 1];
		if (!script_probe(p->script, probe->name, digest) || !str_eq(digest, probe->digest))
			continue;
		auto_str char *path = str_fmt(DIR "/known/%s=", probe->name),
			      *used = str_fmt(DIR "/used/%s", probe->name);
		*strrchr(used, '/') = '\0';
		if (put_job_file(p, path, probe->answer, strlen(probe->answer), 0644, err) < 0 ||
		    root_mkdirs(p->job, used, 0755, err) < 0)
			return -1;
	}
	return 0;
}

int probes_start(struct probes *p, const struct root *cache, const struct root *job, const char *tree_digest,
		 const char *what, struct err *err)
{
	auto_root struct root source = ROOT_NONE;
	if (root_sub(job, "src", &source, err) < 0)
		return -1;
	*p = (struct probes){ .job = job, .script = script_read(&source) };
	if (!p->script)
		return 0;
	p->cache = cache;
	auto_str char *all = str_fmt(HEAD "\n%s\n%s\n%s\n", tree_digest, what, p->script->common);
	digest_data(all, strlen(all), p->name);
	load_answers(p);
	if (put_probe_files(p, err) < 0 || root_rename(&source, "conftest.sh", "conftest.asked.sh", err) < 0)
		return -1;
	return root_put(&source, "conftest.sh", probes_ask, (size_t)((uintptr_t)probes_ask_end - (uintptr_t)probes_ask),
			0755, err);
}

// Written by the child, so its size is limited, and it must consist of lines that conftest.sh writes.
static char *read_answer(const struct root *job, const char *path)
{
	struct err ignored;
	auto_str char *text = NULL;
	size_t len = 0;
	if (root_read_most(job, path, ANSWER_BYTES, &text, &len, &ignored) <= 0 || !len || strlen(text) != len ||
	    text[len - 1] != '\n')
		return NULL;
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		if (!str_starts(line, "#define NV_") && !str_starts(line, "#undef NV_"))
			return NULL;
	return TAKE(text);
}

// Calls for each file below dir; names are relative to it.
static void each_file(const struct root *job, const char *dir, const char *below,
		      void (*call)(void *ctx, const char *name), void *ctx)
{
	auto_str char *path = str_fmt("%s/%s", dir, below);
	auto_strv struct strv names = { 0 };
	struct err ignored;
	root_list(job, path, &names, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *name = str_fmt("%s%s", below, names.items[i]), *full = str_fmt("%s/%s", dir, name),
			      *deeper = str_fmt("%s/", name);
		struct stat st;
		if (root_stat(job, full, &st, &ignored) <= 0)
			continue;
		if (S_ISDIR(st.st_mode))
			each_file(job, dir, deeper, call, ctx);
		else if (S_ISREG(st.st_mode))
			call(ctx, name);
	}
}

static void count_answer(void *count, const char *name)
{
	(void)name;
	*(size_t *)count += 1;
}

void probes_count(const struct probes *p, size_t *ret_kept, size_t *ret_asked)
{
	*ret_kept = *ret_asked = 0;
	if (!p->cache)
		return;
	each_file(p->job, DIR "/used", "", count_answer, ret_kept);
	each_file(p->job, DIR "/new", "", count_answer, ret_asked);
}

// A file's name is its probe's and "=", because there are probes "crypto" and "crypto/akcipher.h".
static void collect_answer(void *probes, const char *file)
{
	struct probes *p = probes;
	char digest[DIGEST_HEX + 1];
	size_t len = strspn(file, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-");
	auto_str char *name = str_ndup(file, len);
	if (!str_eq(file + len, "=") || p->known_count >= MOST || !script_probe(p->script, name, digest))
		return;
	for (size_t i = 0; i < p->known_count; i++)
		if (str_eq(p->known[i].name, name) && str_eq(p->known[i].digest, digest))
			return;
	auto_str char *path = str_fmt(DIR "/new/%s", file), *answer = read_answer(p->job, path);
	if (answer)
		add_answer(p, TAKE(name), digest, TAKE(answer));
}

// Removes the oldest file when there are too many.
static void evict_oldest_answers(const struct root *cache)
{
	auto_strv struct strv names = { 0 };
	struct err ignored;
	struct timespec oldest = { 0 };
	const char *which = NULL;
	if (root_list(cache, DIR, &names, &ignored) <= 0 || names.count < PROBES_FILES)
		return;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt(DIR "/%s", names.items[i]);
		struct stat st;
		if (root_stat(cache, path, &st, &ignored) <= 0 ||
		    (which && (st.st_mtim.tv_sec > oldest.tv_sec ||
			       (st.st_mtim.tv_sec == oldest.tv_sec && st.st_mtim.tv_nsec >= oldest.tv_nsec))))
			continue;
		oldest = st.st_mtim;
		which = names.items[i];
	}
	auto_str char *path = which ? str_fmt(DIR "/%s", which) : NULL;
	if (path)
		root_unlink(cache, path, &ignored);
}

static void write_answers(const struct probes *p)
{
	auto_str char *path = str_fmt(DIR "/%s", p->name), *text = str_fmt(HEAD "\nflags %s\n", p->known_flags);
	char hex[DIGEST_HEX + 1];
	struct err ignored;
	for (size_t i = 0; i < p->known_count; i++) {
		auto_strv struct strv lines = { 0 };
		str_add(&text, "probe %s %s\n", p->known[i].name, p->known[i].digest);
		strv_split(&lines, p->known[i].answer, "\n");
		for (size_t k = 0; k < lines.count; k++)
			str_add(&text, " %s\n", lines.items[k]);
	}
	digest_data(text, strlen(text), hex);
	str_add(&text, "%s\n", hex);
	if (!root_exists(p->cache, path))
		evict_oldest_answers(p->cache);
	if (root_mkdirs(p->cache, DIR, 0755, &ignored) == 0)
		root_put(p->cache, path, text, strlen(text), 0644, &ignored);
}

// Answers belong to one set of flags: those under other flags are dropped.
static bool take_flags(struct probes *p)
{
	auto_str char *flags = NULL;
	size_t len = 0;
	struct err absent;
	if (root_read_most(p->job, DIR "/flags", ANSWER_BYTES, &flags, &len, &absent) <= 0 || !len ||
	    strlen(flags) != len)
		return false;
	flags[strcspn(flags, "\n")] = '\0';
	if (p->known_flags && str_eq(p->known_flags, flags))
		return true;
	free_known(p);
	p->known_flags = TAKE(flags);
	return true;
}

void probes_save(struct probes *p, bool is_last)
{
	long now = clock_ms();
	if (!p->cache || (!is_last && now - p->saved_ms < SAVE_MS) || !take_flags(p))
		return;
	size_t before = p->known_count;
	p->saved_ms = now;
	each_file(p->job, DIR "/new", "", collect_answer, p);
	if (p->known_count != before)
		write_answers(p);
}
