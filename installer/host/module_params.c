// SPDX-License-Identifier: Apache-2.0
#include "host/module_params.h"

#include "host/module_set.h"
#include "kmod/load/host_modules.h"

#include <ctype.h>

static void param_done(struct module_param *p)
{
	free(p->module);
	free(p->name);
	free(p->value);
	free(p->where);
}

void module_params_done(struct module_params *p)
{
	for (size_t i = 0; i < p->count; i++)
		param_done(&p->items[i]);
	free(p->items);
	strv_done(&p->blacklist);
	strv_done(&p->skipped);
	strv_done(&p->forbidden);
	*p = (struct module_params){ 0 };
}

static bool is_param_name(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_' && s[i] != '-')
			return false;
	return len > 0;
}

// word = "name" or "name=value"; false = neither.
static bool set_param(struct module_params *p, const char *module, const char *word, enum param_source source,
		      const char *where)
{
	size_t len = strcspn(word, "=");
	if (!is_param_name(word, len) || !is_param_name(module, strlen(module)))
		return false;
	struct module_param new = {
		.module = module_canonical(module),
		.name = str_ndup(word, len),
		.value = word[len] ? str_dup(word + len + 1) : NULL,
		.source = source,
		.where = str_dup(where),
	};
	for (size_t i = 0; i < p->count; i++)
		if (str_eq(p->items[i].module, new.module) && str_eq(p->items[i].name, new.name)) {
			param_done(&p->items[i]);
			p->items[i] = new;
			return true;
		}
	p->items = mem_grow(p->items, p->count + 1, sizeof(*p->items));
	p->items[p->count++] = new;
	return true;
}

static int read_modprobe(struct module_params *p, const struct root *host, const struct root *kern, struct err *err)
{
	auto_host_modules struct host_modules m = { 0 };
	if (host_modules_read(host, kern, &m, err) < 0)
		return -1;
	for (size_t i = 0; i < m.count; i++) {
		const struct host_param *param = &m.params[i];
		set_param(p, param->module, param->word, param->where ? PARAM_MODPROBE : PARAM_CMDLINE,
			  param->where ? param->where : "kernel command line");
	}
	for (size_t i = 0; i < m.blacklist.count; i++) {
		auto_str char *name = module_canonical(m.blacklist.items[i]);
		if (!strv_has(&p->blacklist, name))
			strv_add(&p->blacklist, TAKE(name));
	}
	p->skipped = m.skipped;
	m.skipped = (struct strv){ 0 };
	p->forbidden = m.forbidden;
	m.forbidden = (struct strv){ 0 };
	return 0;
}

int module_params_check_allowed(const struct module_params *p, const struct strv *modules, struct err *err)
{
	auto_strv struct strv refused = { 0 };
	for (size_t i = 0; i < modules->count; i++) {
		auto_str char *name = module_kernel_name(modules->items[i]);
		if (strv_has(&p->forbidden, name))
			strv_add(&refused, TAKE(name));
	}
	if (!refused.count)
		return 0;
	auto_str char *names = strv_join(&refused, ", ");
	err_set(err, E_LOAD, "the kernel command line forbids %s: module_blacklist= of /proc/cmdline", names);
	return host_modules_next(err);
}

static int read_drivers(struct module_params *p, const struct root *self, struct err *err)
{
	static const char *const names[] = { "nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-peermem" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		auto_str char *path = str_fmt("drivers/%s.conf", names[i]), *text = NULL;
		auto_strv struct strv lines = { 0 };
		int r = root_read_entry(self, path, SIZE_MAX, &text, &p->skipped, err);
		if (r < 0)
			return -1;
		strv_split(&lines, r > 0 ? text : "", "\n");
		for (size_t j = 0; j < lines.count; j++) {
			const char *rest = str_trim(lines.items[j]);
			auto_str char *bad = NULL;
			for (char *word; *rest != '#' && !bad && (word = host_modules_next_word(&rest)); free(word))
				if (!set_param(p, names[i], word, PARAM_DRIVERS, path))
					bad = str_dup(word);
			if (bad)
				return err_set(err, E_CONFIG, "/%s: '%s' is not NAME=VALUE", path, bad);
		}
	}
	return 0;
}

int module_params_add_option(struct module_params *p, const char *text, struct err *err)
{
	const char *colon = strchr(text, ':');
	auto_str char *module = str_ndup(text, colon ? (size_t)(colon - text) : 0);
	if (!colon || !strchr(colon, '=') || strchr(text, '"') ||
	    !set_param(p, module, colon + 1, PARAM_OPTION, "--param"))
		return err_set(err, E_USAGE, "--param '%s' is not MODULE:NAME=VALUE", text);
	return 0;
}

char *module_param_text(const struct module_param *p)
{
	const char *quote = p->value && strpbrk(p->value, " \t") ? "\"" : "";
	return p->value ? str_fmt("%s=%s%s%s", p->name, quote, p->value, quote) : str_dup(p->name);
}

char *module_params_text(const struct module_params *p, const char *module)
{
	auto_str char *name = module_canonical(module);
	char *text = str_dup("");
	for (size_t i = 0; i < p->count; i++) {
		const struct module_param *param = &p->items[i];
		if (!str_eq(param->module, name))
			continue;
		auto_str char *word = module_param_text(param);
		str_add(&text, "%s%s", *text ? " " : "", word);
	}
	return text;
}

void module_params_options(const struct module_params *p, const char *module, struct strv *ret)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct module_param *param = &p->items[i];
		if (param->source == PARAM_OPTION && str_eq(param->module, module))
			strv_add(ret, str_fmt("%s:%s=%s", module, param->name, param->value));
	}
}

static const struct {
	const char *module, *name, *value, *why;
	uint16_t devices[4][2]; // of the GPUs that it is for: first and last id
} defaults[] = {
	// Source: detect-self-hosted.h of NVIDIA's open-gpu-kernel-modules, 595.45.04.
	{ "nvidia",
	  "NVreg_CoherentGPUMemoryMode",
	  "driver",
	  "a GPU that shares its memory with the processor",
	  { { 0x2340, 0x237f }, { 0x2940, 0x297f }, { 0x31a1, 0x31a1 }, { 0x31c0, 0x31ff } } },
};

static bool has_gpu_in(const struct gpus *gpus, const uint16_t (*devices)[2], size_t count)
{
	for (size_t i = 0; i < gpus->count; i++)
		for (size_t r = 0; r < count; r++)
			if (gpus->items[i].kind == GPU_DISPLAY && gpu_is_ours(&gpus->items[i]) &&
			    gpus->items[i].device >= devices[r][0] && gpus->items[i].device <= devices[r][1])
				return true;
	return false;
}

static void add_defaults(struct module_params *p, const struct gpus *gpus)
{
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++) {
		auto_str char *word = str_fmt("%s=%s", defaults[i].name, defaults[i].value);
		if (has_gpu_in(gpus, defaults[i].devices, ARRAY_SIZE(defaults[i].devices)) &&
		    !module_params_has(p, defaults[i].module, defaults[i].name))
			set_param(p, defaults[i].module, word, PARAM_DEFAULT, defaults[i].why);
	}
}

int module_params_read(const struct root *host, const struct root *kern, const struct root *self,
		       const struct strv *options, const struct gpus *gpus, struct module_params *ret, struct err *err)
{
	auto_module_params struct module_params p = { 0 };
	if (read_modprobe(&p, host, kern, err) < 0 || read_drivers(&p, self, err) < 0)
		return -1;
	for (size_t i = 0; i < options->count; i++) {
		auto_str char *module = str_ndup(options->items[i], strcspn(options->items[i], ":"));
		if (module_params_add_option(&p, options->items[i], err) < 0 ||
		    module_set_check_name("--param", module, err) < 0)
			return -1;
	}
	if (gpus)
		add_defaults(&p, gpus);
	*ret = p;
	p = (struct module_params){ 0 };
	return 0;
}

static bool is_unknown_default(const struct module *m, const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++) {
		auto_str char *mine = str_fmt("%s=%s", defaults[i].name, defaults[i].value);
		if (str_eq(word, mine) && module_name_eq(m->name, defaults[i].module))
			return !strv_has(&m->params, defaults[i].name);
	}
	return false;
}

char *module_params_known(const struct module *m, const char *text)
{
	char *known = str_dup("");
	auto_strv struct strv words = { 0 };
	module_params_words(text, &words);
	for (size_t i = 0; i < words.count; i++)
		if (!is_unknown_default(m, words.items[i]))
			str_add(&known, "%s%s", *known ? " " : "", words.items[i]);
	return known;
}

void module_params_words(const char *text, struct strv *ret)
{
	for (const char *p = text + strspn(text, " "), *end; *p; p = end + strspn(end, " ")) {
		bool is_quoted = false;
		for (end = p; *end && (is_quoted || *end != ' '); end++)
			is_quoted ^= *end == '"';
		strv_add(ret, str_ndup(p, (size_t)(end - p)));
	}
}

bool module_params_has(const struct module_params *p, const char *module, const char *name)
{
	auto_str char *canonical = module_canonical(module);
	for (size_t i = 0; i < p->count; i++)
		if (str_eq(p->items[i].module, canonical) && str_eq(p->items[i].name, name))
			return true;
	return false;
}

// kstrtobool() of the kernel's lib/kstrtox.c: the first letter counts, of "on" and "off" the second. A bare name is
// yes.
static bool parse_boolean(const char *s, bool *ret)
{
	static const char yes[] = "yYtT1eE", no[] = "nNfF0dD";
	char c = !s                         ? '1' :
		 *s != 'o' && *s != 'O'     ? *s :
		 s[1] == 'n' || s[1] == 'N' ? '1' :
		 s[1] == 'f' || s[1] == 'F' ? '0' :
					      'o';
	*ret = c && strchr(yes, c);
	return *ret || (c && strchr(no, c));
}

// kstrtoll() and kstrtoull() in one: a sign, then a number in any base of C.
static bool parse_integer(const char *s, bool *ret_negative, uint64_t *ret)
{
	if (!s)
		return false;
	bool has_sign = *s == '-' || *s == '+';
	if (!str_u64(s + has_sign, 0, ret) || !isdigit((unsigned char)s[has_sign]))
		return false;
	*ret_negative = *s == '-' && *ret;
	return true;
}

// NVIDIA's driver has integers that it shows without their sign.
static bool is_same_integer(bool x_negative, uint64_t x, bool y_negative, uint64_t y)
{
	static const uint64_t ALL = 1ULL << 32, MOST = 1ULL << 31; // of 32 bits, and of those without the sign
	if (x_negative == y_negative)
		return x == y;
	return x_negative ? x <= MOST && y == ALL - x : y <= MOST && x == ALL - y;
}

// Those of type charp by their parmtype in .modinfo, of which a number is text, too.
static bool is_text_param(const char *name)
{
	static const char *const names[] = {
		"NVreg_CoherentGPUMemoryMode",
		"NVreg_ExcludedGpus",
		"NVreg_GpuBlacklist",
		"NVreg_RegistryDwords",
		"NVreg_RegistryDwordsPerDevice",
		"NVreg_RmMsg",
		"NVreg_RmNvlinkBandwidth",
		"NVreg_TemporaryFilePath",
		"NvSwitchBlacklist",
		"NvSwitchRegDwords",
		"config_file",
		"rm_firmware_active",
		"uvm_channel_gpfifo_loc",
		"uvm_channel_gpput_loc",
		"uvm_channel_pushbuffer_loc",
		"uvm_page_table_location",
		"uvm_peer_copy",
	};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(names[i], name))
			return true;
	return false;
}

bool module_param_is_same(const char *name, const char *has, const char *requested)
{
	bool is_negative, is_minus, is_yes;
	uint64_t x, y;
	if (str_eq(has, requested) || is_text_param(name))
		return str_eq(has, requested);
	if (parse_integer(has, &is_negative, &x) && parse_integer(requested, &is_minus, &y))
		return is_same_integer(is_negative, x, is_minus, y);
	bool was_yes = str_eq(has, "Y") || str_eq(has, "1"),
	     is_boolean = was_yes || str_eq(has, "N") || str_eq(has, "0");
	return is_boolean && parse_boolean(requested, &is_yes) && is_yes == was_yes;
}

static const char *find_shown(const struct strv *params, const char *name)
{
	size_t len = strlen(name);
	for (size_t i = 0; i < params->count; i++)
		if (str_starts(params->items[i], name) && params->items[i][len] == '=')
			return params->items[i] + len + 1;
	return NULL;
}

const char *module_param_shown(const struct module_param *p, const struct modules *loaded)
{
	const struct loaded_module *m = modules_find(loaded, p->module);
	const char *has = m ? find_shown(&m->params, p->name) : NULL;
	if (m && !has && str_eq(m->name, "nvidia") && str_starts(p->name, "NVreg_"))
		has = find_shown(&loaded->params, p->name + strlen("NVreg_"));
	return has;
}

int module_params_differing(const struct module_params *p, const struct modules *loaded, struct strv *ret)
{
	struct strv differ = { 0 };
	for (size_t i = 0; i < p->count; i++) {
		const struct module_param *request = &p->items[i];
		const char *has = request->source == PARAM_DEFAULT ? NULL : module_param_shown(request, loaded);
		if (has && !module_param_is_same(request->name, has, request->value))
			strv_add(&differ, str_fmt("%s %s: %s, requested %s", request->module, request->name, has,
						  request->value ? request->value : "(set)"));
	}
	int r = differ.count > 0;
	strv_done(ret);
	*ret = differ;
	return r;
}
