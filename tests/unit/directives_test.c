// SPDX-License-Identifier: Apache-2.0
// The pieces that a source begins with: where each ends, and where the rest begins.
#include "tests/unit/test.h"

#include "kmod/forkserver/directives.h"

#include <stdio.h>
#include <string.h>

static struct directives got;

// All pieces, each in brackets, then the line of the rest and the rest.
static void check(const char *source, const char *want)
{
	char text[4096] = "";
	size_t rest = 0, line = 1, used = 0;
	directives_read(source, strlen(source), &got);
	for (size_t i = 0; i < got.count; i++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used, "[%.*s]", (int)got.pieces[i].len,
					 got.text + got.pieces[i].at);
		rest = got.pieces[i].rest;
		line = got.pieces[i].rest_line;
	}
	snprintf(text + used, sizeof(text) - used, "%zu:%s", line, source + rest);
	assert_string_equal(text, want);
}

static void test_pieces(void **state)
{
	(void)state;
	check("", "1:");
	check("int x;\n", "1:int x;\n");
	check("#include \"a.h\"\nint x;\n", "[#include \"a.h\"\n]2:int x;\n");
	check("\n  #  include <a.h>  \n#include <b.h>\nint x;\n", "[  #  include <a.h>\n][#include <b.h>\n]4:int x;\n");
	// Definitions belong to the #include after them; what no #include follows is the rest's.
	check("#define A 1\n#undef B\n#include <a.h>\n#define C\nint x;\n",
	      "[#define A 1\n#undef B\n#include <a.h>\n]4:#define C\nint x;\n");
	check("#define A 1\nint x;\n", "1:#define A 1\nint x;\n");
}

static void test_comments(void **state)
{
	(void)state;
	check("/* a\n * #include <no.h>\n */\n// b\n#include <a.h> // c\n/* d */ #include <b.h>\nx;\n",
	      "[#include <a.h>\n][  #include <b.h>\n]7:x;\n");
	check("#define A \"/*\" /* b\n c */ 2\n#include <a.h>\nx;\n", "[#define A \"/*\"   2\n#include <a.h>\n]4:x;\n");
	check("#define A '\"' // b\n#include <a.h>\n", "[#define A '\"'\n#include <a.h>\n]3:");
	check("#define A \\\n  1 // b \\\n  c\n#include <a.h>\n", "[#define A   1\n#include <a.h>\n]5:");
	check("#include <a.h>\n/* without end\n", "[#include <a.h>\n]2:/* without end\n");
	check("#include <a.h>\n/* b */ int x;\n", "[#include <a.h>\n]2:/* b */ int x;\n");
}

// No piece ends inside of a condition.
static void test_conditions(void **state)
{
	(void)state;
	check("#if A\n#include <a.h>\n#elif B\n#else\n#include <b.h>\n#endif\nx;\n",
	      "[#if A\n#include <a.h>\n#elif B\n#else\n#include <b.h>\n#endif\n]7:x;\n");
	check("#ifdef A\n#ifndef B\n#include <a.h>\n#endif\n#endif\n",
	      "[#ifdef A\n#ifndef B\n#include <a.h>\n#endif\n#endif\n]6:");
	check("#if A\n#define B\n#endif\n#include <a.h>\n", "[#if A\n#define B\n#endif\n#include <a.h>\n]5:");
	check("#include <a.h>\n#if A\n#include <b.h>\nx;\n#endif\n",
	      "[#include <a.h>\n]2:#if A\n#include <b.h>\nx;\n#endif\n");
	check("#endif\n#include <a.h>\n", "1:#endif\n#include <a.h>\n");
}

// What asks for its place, and what is not known, is the rest's.
static void test_ends(void **state)
{
	(void)state;
	static const char *const lines[] = {
		"#define A __LINE__\n",
		"#if __INCLUDE_LEVEL__\n",
		"#define A __FILE__\n",
		"#define A _Pragma(\"x\")\n",
		"#pragma once\n",
		"#error x\n",
		"#line 3\n",
		"#include_next <a.h>\n",
		"#define A \"without end\n",
		"%:define A\n",
		"#\n",
		"#define A\r\n",
		"#define A __BASE_FILE__\n",
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		char source[128], want[128];
		snprintf(source, sizeof(source), "#include <a.h>\n%s#include <b.h>\n", lines[i]);
		snprintf(want, sizeof(want), "[#include <a.h>\n]2:%s#include <b.h>\n", lines[i]);
		check(source, want);
	}
	check("#define A my__LINE__\n#include <a.h>\n", "[#define A my__LINE__\n#include <a.h>\n]3:");
	check("#include <a.h>", "1:#include <a.h>");
	directives_read("#include <a.h>\n\0#include <b.h>\n", 31, &got);
	assert_int_equal(got.count, 1);
}

static void test_bounds(void **state)
{
	(void)state;
	enum { LINES = 100, LONG = DIRECTIVES_BYTES + 100 };
	char many[LINES * 16 + 1] = "", *end = many;
	for (int i = 0; i < LINES; i++)
		end += sprintf(end, "#include <%02d.h>\n", i);
	directives_read(many, (size_t)(end - many), &got);
	assert_int_equal(got.count, DIRECTIVES_PIECES);
	assert_int_equal(got.pieces[got.count - 1].rest_line, DIRECTIVES_PIECES + 1);
	static char wide[LONG + 64];
	int at = sprintf(wide, "#include <a.h>\n#define A ");
	memset(wide + at, 'x', LONG);
	strcpy(wide + at + LONG, "\n#include <b.h>\n");
	directives_read(wide, strlen(wide), &got);
	assert_int_equal(got.count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces), cmocka_unit_test(test_comments), cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_ends),   cmocka_unit_test(test_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
