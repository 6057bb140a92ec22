// SPDX-License-Identifier: Apache-2.0
// trust enroll: a key for modules, and the request to shim that its kernel shall trust it.
#include "acquire/enroll.h"

#include "base/file/file.h"
#include "cmd/common/common.h"

#include <fcntl.h>
#include <stdio.h>

struct values {
	struct common common;
	char *new, *cert, *password_file;
	bool is_check;
};

static const struct opt opts[] = {
	{ "new", 0, "DIR", NULL, OPT_STR, offsetof(struct values, new),
	  "make a key there, modules.key, and its certificate, modules.pem; neither is ever overwritten" },
	{ "module-cert", 0, "FILE", "KMODSMITH_MODULE_CERT", OPT_STR, offsetof(struct values, cert),
	  "the certificate to enrol, PEM or DER: of a key that signs modules, or of an authority that issues such" },
	{ "password-file", 0, "FILE", "KMODSMITH_MOK_PASSWORD_FILE", OPT_STR, offsetof(struct values, password_file),
	  "its first line is the password that MokManager will ask for; default: one is made up and shown once" },
	{ "check", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_check),
	  "only say whether the kernel trusts the certificate; an error if it does not" },
	{ 0 },
};

static int write_new(const struct root *dir, const char *name, const char *text, mode_t mode, struct err *err)
{
	if (root_exists(dir, name))
		return err_set(err, E_USAGE,
			       "--new: '%s/%s' exists, and no key is overwritten: enrol it with --module-cert, or name "
			       "another directory",
			       dir->name, name);
	return text ? root_write(dir, name, text, strlen(text), mode, err) : 0;
}

// *ret: the certificate's file.
static int make_key(const struct values *v, const struct machine *m, char **ret, struct err *err)
{
	static const char key_name[] = "modules.key", cert_name[] = "modules.pem";
	auto_root struct root dir = ROOT_NONE;
	auto_str char *host = NULL, *key = NULL, *cert = NULL;
	struct err unnamed;
	if (root_line(&m->kern, "proc/sys/kernel/hostname", &host, &unnamed) <= 0 || !*host)
		str_set(&host, "this host");
	if (root_make(v->new, &dir, err) < 0 || write_new(&dir, key_name, NULL, 0, err) < 0 ||
	    write_new(&dir, cert_name, NULL, 0, err) < 0 || module_key_make(host, &key, &cert, err) < 0 ||
	    write_new(&dir, key_name, key, 0600, err) < 0 || write_new(&dir, cert_name, cert, 0644, err) < 0)
		return -1;
	*ret = str_fmt("%s/%s", v->new, cert_name);
	return 0;
}

// *ret: NULL = one is to be made up.
static int read_password(const char *file, char **ret, struct err *err)
{
	enum { BYTES_MOST = 4096 };
	auto_str char *text = NULL;
	if (!file)
		return 0;
	auto_fd int fd = file_open_arg(file, O_RDONLY, err);
	if (fd < 0 || file_read_most(fd, file, BYTES_MOST, &text, NULL, err) < 0)
		return -1;
	text[strcspn(text, "\r\n")] = '\0';
	if (enroll_check_password(text, err) < 0)
		return -1;
	*ret = TAKE(text);
	return 0;
}

// Of MokManager.c in shim.
static const char *const steps[] = {
	"reboot, and be at the console: the machine waits ten seconds and then goes on without asking",
	"\"Press any key to perform MOK management\": press one",
	"choose \"Enroll MOK\", then \"Continue\"; \"View key 0\" shows the certificate",
	"\"Enroll the key(s)?\": choose \"Yes\", and type the password",
	"choose \"Reboot\"",
};

static const char *state_text(enum enroll_state s)
{
	static const char *const texts[] = {
		[ENROLL_TRUSTED] = "the kernel has it, and loads what it signed",
		[ENROLL_LISTED] = "it is enrolled; the kernel's keyrings cannot be asked here",
		[ENROLL_IGNORED] = "it is enrolled, but no keyring of this kernel that counts for modules has it",
		[ENROLL_PENDING] = "asked for, and not confirmed yet",
		[ENROLL_ABSENT] =
			"it is not enrolled; if it was asked for, nobody confirmed it, or the password was wrong",
	};
	return texts[s];
}

// Adds what the enrolment means on this machine.
static void add_notes(const struct host *h, enum enroll_state state, struct strv *ret)
{
	if (h->lockdown == LOCKDOWN_CONFIDENTIALITY)
		strv_add(ret, str_dup("lockdown is confidentiality: signed modules load, and tools that read the "
				      "kernel's memory (perf, kprobes, much of BPF) do not work"));
	if (!host_signing_reason(h) && h->secure_boot != SECURE_BOOT_ON)
		strv_add(ret, str_dup("nothing demands signatures of this kernel now (Secure Boot is not on): unsigned "
				      "modules load, too"));
	if (state == ENROLL_IGNORED)
		strv_add(ret, str_dup("a kernel takes keys of MOK for modules if it was configured for that: those of "
				      "Debian, Ubuntu, Red Hat and SUSE are"));
}

static void show_enroll(const struct values *v, const char *file, const struct module_cert *cert,
			enum enroll_state state, bool is_asked, const char *password, const struct strv *notes)
{
	bool is_waiting = state == ENROLL_PENDING;
	if (v->common.is_json) {
		json_t *list = json_array();
		for (size_t i = 0; is_waiting && i < ARRAY_SIZE(steps); i++)
			json_array_append_new(list, json_string(steps[i]));
		auto_json json_t *json =
			json_pack("{s:o, s:o, s:s, s:b, s:o, s:o, s:o}", "certificate", json_text(file), "subject",
				  json_text(cert->name), "state", enroll_state_name(state), "changed", is_asked,
				  "password", json_text(password), "steps", list, "notes", json_strv(notes));
		show_json(json);
		return;
	}
	printf("%s (%s): %s\n", cert->name, file, state_text(state));
	if (password)
		printf("password, shown only now: %s\n", password);
	for (size_t i = 0; is_waiting && i < ARRAY_SIZE(steps); i++)
		printf("%zu. %s\n", i + 1, steps[i]);
	if (is_waiting && !is_asked)
		printf("the password is the one of the first time; --password-file gives it another one\n");
	if (is_waiting)
		printf("then: kmodsmith trust enroll --check --module-cert %s\n", file);
	for (size_t i = 0; i < notes->count; i++)
		printf("note: %s\n", notes->items[i]);
}

static int check_state(const struct module_cert *cert, enum enroll_state state, struct err *err)
{
	return state == ENROLL_TRUSTED || state == ENROLL_LISTED ?
		       0 :
		       err_set(err, E_KEY_UNKNOWN, "%s: %s", cert->name, state_text(state));
}

static int run_trust_enroll(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_host struct host host = { 0 };
	auto_module_cert struct module_cert cert = { 0 };
	auto_strv struct strv notes = { 0 };
	auto_str char *made = NULL, *password = NULL;
	enum enroll_state state;
	(void)args, (void)count;
	if (v->new && v->is_check)
		return err_set(err, E_USAGE, "--new and --check exclude each other: a new key is not enrolled yet");
	if (!v->new && !v->cert)
		return err_set(err, E_USAGE,
			       "name the certificate with --module-cert FILE, or make a key with --new DIR");
	if (read_password(v->password_file, &password, err) < 0 || machine_open(&v->common, &m, err) < 0 ||
	    host_read(&m.host, &m.kern, &host, err) < 0 || (v->new &&make_key(v, &m, &made, err) < 0))
		return -1;
	const char *file = made ? made : v->cert;
	if (module_cert_read(file, &cert, err) < 0 || enroll_look(&m.node, &cert, &state, err) < 0 ||
	    (v->is_check && check_state(&cert, state, err) < 0))
		return -1;
	bool is_due = !v->is_check && (state == ENROLL_ABSENT || (state == ENROLL_PENDING && password));
	bool is_made_up = is_due && !password;
	if ((is_made_up && enroll_make_password(&password, err) < 0) ||
	    (is_due && enroll_ask(&m.node, &cert, password, err) < 0))
		return made ? err_wrap(err, "%s was made, and is not enrolled", made) : -1;
	state = is_due ? ENROLL_PENDING : state;
	add_notes(&host, state, &notes);
	show_enroll(v, file, &cert, state, is_due, is_made_up ? password : NULL, &notes);
	return 0;
}

const struct cmd cmd_trust_enroll = {
	.name = "trust enroll",
	.help = "have the kernel trust a key that signs modules (Secure Boot)",
	.about = "Prepares what `mokutil --import` prepares: at the next boot shim's MokManager asks somebody at the\n"
		 "console to confirm the certificate, with a password that is shown here once. Changes nothing when\n"
		 "the kernel has it already. Run it again, or with --check, to see what became of it. MokManager's\n"
		 "screen is in English with an American keyboard; the password that is made up has only letters that\n"
		 "most keyboards have in the same place.\n\n"
		 "  kmodsmith trust enroll --new keys\n"
		 "  kmodsmith install --module-key keys/modules.key --module-cert keys/modules.pem\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_trust_enroll,
};
