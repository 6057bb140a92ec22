// SPDX-License-Identifier: Apache-2.0
#pragma once

const char *version_commit(void); // that the program was built from; NULL = not known
