// SPDX-License-Identifier: Apache-2.0
// Which proxy a request goes through (R-L1). Pure, but for the environment.
#pragma once
#include "base/core/str.h"

// Returns the proxy of a request to scheme://host:port. NULL = direct. proxy: NULL = http_proxy, https_proxy, all_proxy
// of the environment in lower, then upper case; "" = none. no_proxy: NULL = that of the environment; a list, separated
// by commas or blanks, of "*", names (they match subdomains too, with or without a leading "." or "*."), addresses and
// CIDR ranges, each with or without ":PORT". Ranges match hosts that are written as addresses: no name is looked up for
// them.
char *proxy_choose(const char *proxy, const char *no_proxy, const char *scheme, const char *host, unsigned port);
// Entries of that list that mean nothing, for a warning; none where there is no proxy.
void proxy_unusable_exceptions(const char *proxy, const char *no_proxy, struct strv *ret);
