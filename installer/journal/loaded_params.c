// SPDX-License-Identifier: Apache-2.0
#include "journal/loaded_params.h"

const struct driver_state *loaded_params_record(const struct journal *j, const char *boot, const char *version,
						const char *flavour)
{
	const struct driver_state *left = journal_left_loaded(j, boot), *d = left ? left : &j->last_good;
	bool is_it = d->version && str_eq(d->version, version) && (left || str_eq(j->last_good_boot, boot)) &&
		     (!flavour || str_eq(d->flavour, flavour));
	return is_it ? d : NULL;
}

char *loaded_params_removed(const struct driver_state *record, const struct strv *modules,
			    const struct module_params *requested)
{
	for (size_t i = 0; i < modules->count; i++) {
		auto_str char *module = module_canonical(modules->items[i]);
		auto_strv struct strv words = { 0 };
		module_params_words(driver_state_params(record, module), &words);
		for (size_t n = 0; n < words.count; n++) {
			auto_str char *name = str_ndup(words.items[n], strcspn(words.items[n], "="));
			if (!requested || !module_params_has(requested, module, name))
				return str_fmt("%s %s", module, name);
		}
	}
	return NULL;
}

static bool is_param_of(const struct driver_state *record, const char *module)
{
	for (size_t i = 0; i < record->modules.count; i++) {
		auto_str char *name = module_canonical(record->modules.items[i]);
		if (str_eq(name, module))
			return true;
	}
	return false;
}

// Whether it was given this value, in whichever spelling.
static bool was_given(const char *given, const struct module_param *p)
{
	size_t len = strlen(p->name);
	auto_strv struct strv words = { 0 };
	auto_str char *word = module_param_text(p);
	module_params_words(given, &words);
	for (size_t i = 0; i < words.count; i++) {
		const char *value = words.items[i] + len;
		if (str_eq(words.items[i], word) || (str_starts(words.items[i], p->name) && *value == '=' &&
						     module_param_is_same(p->name, value + 1, p->value)))
			return true;
	}
	return false;
}

char *loaded_params_missing(const struct driver_state *record, const struct modules *loaded,
			    const struct module_params *requested)
{
	for (size_t i = 0; i < requested->count; i++) {
		const struct module_param *p = &requested->items[i];
		if (p->source == PARAM_DEFAULT || !is_param_of(record, p->module) || !modules_find(loaded, p->module) ||
		    module_param_shown(p, loaded))
			continue;
		if (!was_given(driver_state_params(record, p->module), p)) {
			auto_str char *word = module_param_text(p);
			return str_fmt("%s %s", p->module, word);
		}
	}
	return NULL;
}

// option: "MODULE:NAME=VALUE"; anything else is ignored.
static bool is_usual_option(const struct module_params *usual, const char *option)
{
	size_t module_len = strcspn(option, ":"), len = strcspn(option, "=");
	if (len <= module_len)
		return true;
	auto_str char *module = str_ndup(option, module_len);
	auto_str char *name = str_ndup(option + module_len + 1, len - module_len - 1);
	return module_params_has(usual, module, name);
}

void loaded_params_options(const struct driver_state *record, const struct module_params *usual, struct strv *ret)
{
	for (size_t i = 0; i < record->options.count; i++)
		if (!is_usual_option(usual, record->options.items[i]))
			strv_add(ret, str_dup(record->options.items[i]));
	strv_sort(ret);
}
