// SPDX-License-Identifier: Apache-2.0
#include "journal/loaded_params.h"

const struct driver *given_record(const struct journal *j, const char *boot, const char *version, const char *flavour)
{
	const struct driver *d = &j->last_good;
	bool is_it = d->version && str_eq(d->version, version) && str_eq(j->last_good_boot, boot) &&
		     (!flavour || str_eq(d->flavour, flavour));
	return is_it ? d : NULL;
}

char *given_lost(const struct driver *record, const struct strv *modules, const struct params *wished)
{
	for (size_t i = 0; i < modules->count; i++) {
		auto_str char *module = module_canonical(modules->items[i]);
		auto_strv struct strv names = { 0 };
		params_names(driver_params(record, module), &names);
		for (size_t n = 0; n < names.count; n++)
			if (!wished || !params_has(wished, module, names.items[n]))
				return str_fmt("%s %s", module, names.items[n]);
	}
	return NULL;
}

static bool is_of(const struct driver *record, const char *module)
{
	for (size_t i = 0; i < record->modules.count; i++) {
		auto_str char *name = module_canonical(record->modules.items[i]);
		if (str_eq(name, module))
			return true;
	}
	return false;
}

char *given_lacks(const struct driver *record, const struct loaded *loaded, const struct params *wished)
{
	for (size_t i = 0; i < wished->count; i++) {
		const struct param *p = &wished->items[i];
		auto_strv struct strv words = { 0 };
		auto_str char *word = param_text(p);
		if (p->source == PARAM_DEFAULT || !is_of(record, p->module) || !loaded_find(loaded, p->module) ||
		    param_shown(p, loaded))
			continue;
		params_words(driver_params(record, p->module), &words);
		if (!strv_has(&words, word))
			return str_fmt("%s %s", p->module, word);
	}
	return NULL;
}

// Of "MODULE:NAME=VALUE"; what is none says nothing.
static bool is_usual(const struct params *usual, const char *option)
{
	size_t module_len = strcspn(option, ":"), len = strcspn(option, "=");
	if (len <= module_len)
		return true;
	auto_str char *module = str_ndup(option, module_len);
	auto_str char *name = str_ndup(option + module_len + 1, len - module_len - 1);
	return params_has(usual, module, name);
}

void given_options(const struct driver *record, const struct params *usual, struct strv *ret)
{
	for (size_t i = 0; i < record->options.count; i++)
		if (!is_usual(usual, record->options.items[i]))
			strv_add(ret, str_dup(record->options.items[i]));
	strv_sort(ret);
}
