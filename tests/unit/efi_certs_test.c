// SPDX-License-Identifier: Apache-2.0
// Signature lists as firmware and shim leave them, whole and damaged (UEFI 2.10, 32.4.1).
#include "kmod/load/efi_certs.h"
#include "tests/unit/efi_list.h"
#include "tests/unit/test.h"

static char *texts(const struct efi_certs *c)
{
	char *s = str_dup("");
	for (size_t i = 0; i < c->count; i++)
		str_add(&s, "%s%.*s", i ? " " : "", (int)c->items[i].len, c->items[i].der);
	return s;
}

static void test_lists(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		struct efi_list_made lists[3];
		size_t cut;                      // bytes that are missing at the end
		long list_size, head_size, each; // of the second list, -1 = what is right
		int is_whole;
		const char *want;
	} rows[] = {
		{ "one", { { .der = "A" } }, 0, -1, -1, -1, 1, "A" },
		{ "three, one twice", { { .der = "A" }, { .der = "BB" }, { .der = "A" } }, 0, -1, -1, -1, 1, "A BB" },
		{ "hashes between them",
		  { { .der = "A" }, { .der = "hash", .is_hash = true }, { .der = "C" } },
		  0,
		  -1,
		  -1,
		  -1,
		  1,
		  "A C" },
		{ "a header before the entries",
		  { { .der = "A" }, { .der = "B", .head = 5 } },
		  0,
		  -1,
		  -1,
		  -1,
		  1,
		  "A B" },
		{ "cut in an entry", { { .der = "A" }, { .der = "BBBB" } }, 2, -1, -1, -1, 0, "A" },
		{ "cut in a head", { { .der = "A" }, { .der = "B" } }, 20, -1, -1, -1, 0, "A" },
		{ "a list of no bytes", { { .der = "A" }, { .der = "B" } }, 0, 0, -1, -1, 0, "A" },
		{ "a list smaller than its head", { { .der = "A" }, { .der = "B" } }, 0, 27, -1, -1, 0, "A" },
		{ "a list larger than the variable", { { .der = "A" }, { .der = "B" } }, 0, 46, -1, -1, 0, "A" },
		{ "the largest list", { { .der = "A" }, { .der = "B" } }, 0, 0xffffffffL, -1, -1, 0, "A" },
		{ "a header larger than the list", { { .der = "A" }, { .der = "B" } }, 0, -1, 18, -1, 0, "A" },
		{ "the largest header", { { .der = "A" }, { .der = "B" } }, 0, -1, 0xffffffffL, -1, 0, "A" },
		{ "entries without an owner", { { .der = "A" }, { .der = "B" } }, 0, -1, -1, 15, 0, "A" },
		{ "entries of no bytes", { { .der = "A" }, { .der = "B" } }, 0, -1, -1, 0, 0, "A" },
		{ "an entry larger than the list", { { .der = "A" }, { .der = "B" } }, 0, -1, -1, 18, 0, "A" },
		{ "a part of an entry left", { { .der = "A" }, { .der = "BBBBBBBBB" } }, 0, -1, -1, 17, 0, "A" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_efi_certs struct efi_certs found = { 0 };
		size_t len = 0, second = 0;
		auto_str char *data = NULL;
		for (size_t k = 0; k < 3 && rows[i].lists[k].der; k++) {
			second = k == 1 ? len : second;
			efi_list_add(&data, &len, &rows[i].lists[k], strlen(rows[i].lists[k].der));
		}
		const long sizes[] = { rows[i].list_size, rows[i].head_size, rows[i].each };
		for (size_t k = 0; k < 3; k++)
			if (sizes[k] >= 0)
				efi_list_put(data + second + 16 + 4 * k, (uint32_t)sizes[k]);
		auto_str char *exact = mem_alloc(len - rows[i].cut); // so that ASan sees one byte too many
		memcpy(exact, data, len - rows[i].cut);
		expect(efi_certs_parse(exact, len - rows[i].cut, &found) == rows[i].is_whole, rows[i].name);
		auto_str char *text = texts(&found);
		expect(str_eq(text, rows[i].want), rows[i].name);
	}
}

static void write_bytes(const struct folder *t, const char *path, const void *data, size_t len)
{
	struct err err;
	assert_int_equal(root_put(&t->root, path, data, len, 0644, &err), 0);
}

static void put(const struct folder *t, const char *path, bool has_attributes, const char *der)
{
	auto_str char *data = NULL;
	size_t len = 0;
	if (has_attributes) {
		data = str_dup("\a___");
		data[1] = data[2] = data[3] = '\0';
		len = 4;
	}
	efi_list_add(&data, &len, &(struct efi_list_made){ .der = der }, strlen(der));
	write_bytes(t, path, data, len);
}

static void test_variables(void **state)
{
	(void)state;
#define VARS "sys/firmware/efi/efivars/"
#define SHIM "-605dab50-e046-4300-abb6-3dd810dd8b23"
	struct folder t;
	struct err err;
	auto_efi_certs struct efi_certs none = { 0 }, db = { 0 }, split = { 0 }, whole = { 0 }, asked = { 0 };
	folder_make(&t);
	assert_int_equal(efi_certs_read(&t.root, EFI_DB, &none, &err), 0); // no EFI
	folder_dir(&t, "sys/firmware/efi/efivars");
	assert_int_equal(efi_certs_read(&t.root, EFI_MOK, &none, &err), 0);
	put(&t, VARS "db-d719b2cb-3d3a-4596-a3bc-dad00e67656f", true, "DB");
	put(&t, VARS "MokListRT" SHIM, true, "ONE");
	put(&t, VARS "MokListRT1" SHIM, true, "TWO");
	put(&t, VARS "MokListRT3" SHIM, true, "FAR");
	put(&t, VARS "MokNew" SHIM, true, "NEW");
	assert_int_equal(efi_certs_read(&t.root, EFI_DB, &db, &err), 1);
	assert_int_equal(efi_certs_read(&t.root, EFI_MOK, &split, &err), 1);
	assert_int_equal(efi_certs_read(&t.root, EFI_MOK_NEW, &asked, &err), 1);
	assert_true(efi_certs_has(&db, "DB", 2) && db.count == 1);
	assert_true(efi_certs_has(&split, "ONE", 3) && efi_certs_has(&split, "TWO", 3) && split.count == 2);
	assert_true(efi_certs_has(&asked, "NEW", 3) && asked.count == 1);
	folder_dir(&t, "sys/firmware/efi/mok-variables");
	put(&t, "sys/firmware/efi/mok-variables/MokListRT", false, "ALL");
	assert_int_equal(efi_certs_read(&t.root, EFI_MOK, &whole, &err), 1);
	assert_true(efi_certs_has(&whole, "ALL", 3) && whole.count == 1);
	write_bytes(&t, VARS "dbx-d719b2cb-3d3a-4596-a3bc-dad00e67656f", "\a", 1); // not even its attributes
	assert_int_equal(efi_certs_read(&t.root, EFI_DBX, &none, &err), 1);
	assert_int_equal(none.count, 0);
	folder_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lists), cmocka_unit_test(test_variables) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
