// SPDX-License-Identifier: Apache-2.0
// The publisher's side of the catalogue (catalog.h). It is signed before it gets its tag, so no reader sees it
// unsigned.
#pragma once
#include "precompiled/trust/catalog.h"

// The tagged packages of a layout as its next catalogue will list them; number and dates are not set.
int catalog_publish_list(const struct layout *l, struct catalog *ret, struct err *err);
// Signs the packages of such a list with each maker's key. ret_made[i] = one of them signed item i.
int catalog_publish_signatures(const struct layout *l, const struct catalog *list, const struct signature_maker *makers,
			       size_t count, bool *ret_made, struct err *err);
// Lists them under the next number, signs the list with each maker's key and replaces the previous catalogue.
int catalog_publish(const struct layout *l, unsigned days, time_t now, const struct signature_maker *makers,
		    size_t count, struct catalog *ret, struct err *err);
