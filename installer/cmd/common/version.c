// SPDX-License-Identifier: Apache-2.0
// Compiled again for each commit, as no other file is.
#include "cmd/common/common.h"

#ifndef KMODSMITH_COMMIT
#define KMODSMITH_COMMIT ""
#endif

const char *version_commit(void)
{
	static const char commit[] = KMODSMITH_COMMIT;
	return *commit ? commit : NULL;
}
