// SPDX-License-Identifier: Apache-2.0
// Where in a driver source's file the archive begins.
#pragma once
#include "base/archive/embedded.h"
