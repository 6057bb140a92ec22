// SPDX-License-Identifier: Apache-2.0
// What values of keys are made of: fields, words, numbers, each in one spelling only.
#include "cluster/node_state/annotations.h"

#include <ctype.h>

int node_seq_cmp(struct seq a, struct seq b)
{
	if (a.epoch != b.epoch)
		return a.epoch < b.epoch ? -1 : 1;
	return a.n < b.n ? -1 : a.n > b.n;
}

const char *node_word_cut(const char **at, char separator, size_t *ret_len)
{
	const char *start = *at;
	*ret_len = 0;
	if (!start)
		return NULL;
	const char *end = strchr(start, separator);
	*ret_len = end ? (size_t)(end - start) : strlen(start);
	*at = end ? end + 1 : NULL;
	return start;
}

bool node_word_copy(char *to, size_t size, const char *from, size_t len)
{
	if (!len || len >= size)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)from[i]) && !strchr("._/-", from[i]))
			return false;
	memcpy(to, from, len);
	memset(to + len, 0, size - len);
	return true;
}

// Digits without a sign, a blank or a leading zero: one number has one text.
bool node_number_cut(const char *text, size_t len, uint64_t most, uint64_t *ret)
{
	char digits[21];
	if (!len || len >= sizeof(digits) || (len > 1 && *text == '0') || strspn(text, "0123456789") < len)
		return false;
	memcpy(digits, text, len);
	digits[len] = '\0';
	return str_u64(digits, 10, ret) && *ret <= most;
}

bool node_seq_parse(const char *text, size_t len, struct seq *ret)
{
	const char *dot = memchr(text, '.', len);
	uint64_t epoch, n;
	if (!dot || !node_number_cut(text, (size_t)(dot - text), UINT32_MAX, &epoch) ||
	    !node_number_cut(dot + 1, len - (size_t)(dot + 1 - text), UINT32_MAX, &n))
		return false;
	*ret = (struct seq){ (uint32_t)epoch, (uint32_t)n };
	return true;
}
