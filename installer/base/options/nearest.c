// SPDX-License-Identifier: Apache-2.0
#include "base/options/nearest.h"

enum { LONGEST = 64 }; // of words that are compared: no name is that long

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

// Optimal string alignment: the number of slips between two words.
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *now = rows[2];
	size_t length = strlen(b);
	for (size_t j = 0; j <= length; j++)
		last[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		now[0] = i;
		for (size_t j = 1; j <= length; j++) {
			now[j] = smaller(smaller(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = smaller(now[j], before[j - 2] + 1);
		}
		size_t *oldest = before;
		before = last;
		last = now;
		now = oldest;
	}
	return last[length];
}

const char *nearest(const char *word, const struct strv *names)
{
	const char *found = NULL;
	size_t length = strlen(word), best = length / 3 + 1;
	for (size_t i = 0; i < names->count && length <= LONGEST; i++) {
		size_t slips = strlen(names->items[i]) <= LONGEST ? distance(word, names->items[i]) : best;
		if (slips < best) {
			best = slips;
			found = names->items[i];
		}
	}
	return found;
}
