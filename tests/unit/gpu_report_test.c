// SPDX-License-Identifier: Apache-2.0
// What a node says of its GPUs: how it is written and read, whom it blames, and what of a measurement, of the bus and
// of NVIDIA's errors gets into it.
#include "cluster/agent/agent_annotations.h"
#include "cluster/node_state/gpu_report.h"
#include "gpu_check/gpu_record.h"
#include "host/facts.h"
#include "status/xid.h"
#include "tests/unit/tempdir.h"
#include "tests/unit/test.h"

#define GPU "0000:3b:00.0"
#define BOOT "11111111-1111-1111-1111-111111111111"

static void read_and_written(void **state)
{
	(void)state;
	static const struct {
		const char *text, *again; // again: how it is written; NULL = as it was, "" = refused
		size_t faults;
	} rows[] = {
		{ "8/8 570.86.15 NVIDIA-H100-80GB-HBM3", NULL, 0 },
		{ "-/8 535.1 10de:2330,10de:20b5", NULL, 0 },
		{ "7/8 570.1 X " GPU "=no-start", NULL, 1 },
		{ "7/8 570.1 X " GPU "=xid119x2 " GPU "=gone " GPU "=hangs " GPU "=reset-due +7", NULL, 4 },
		{ "7/8 570.1 X " GPU "=no-answer 0000:86:00.0=no-compute", NULL, 2 },
		{ "7/8 570.1 X " GPU "=xid79x1 " GPU "=xid119x1", "7/8 570.1 X " GPU "=xid119x1 " GPU "=xid79x1", 2 },
		{ "8/8 570.1 X " GPU "=xid31x9", "8/8 570.1 X", 0 },           // an application's
		{ "8/8 570.1 X " GPU "=xid999x9", "8/8 570.1 X", 0 },          // of a catalog to come
		{ "8/8 570.1 X " GPU "=on-fire later=1 x", "8/8 570.1 X", 0 }, // of a later version
		{ "8/8 570.1 X " GPU "= =gone " GPU "=xid " GPU "=xid79", "8/8 570.1 X", 0 },
		{ "8/8 570.1 X " GPU "=xid79x " GPU "=xidx1 " GPU "=xid-79x1", "8/8 570.1 X", 0 },
		{ "8/8 570.1 X " GPU "=xid65536x1 0000:3B:00.0=gone", "8/8 570.1 X", 0 },
		{ "8/8 570.1 X 0000:3b:00.0000000000000000=gone", "8/8 570.1 X", 0 },
		{ "8/8 570.1 X +", "8/8 570.1 X", 0 },
		{ "", "", 0 },
		{ "8", "", 0 },
		{ "8/8", "", 0 },
		{ "8/8 570.1", "", 0 },
		{ "8/x 570.1 X", "", 0 },
		{ "/8 570.1 X", "", 0 },
		{ "-8/8 570.1 X", "", 0 },
		{ "65536/8 570.1 X", "", 0 },
		{ "8/8 570.1 <b>X</b>", "", 0 },
		{ "8/8 570.1 X\n", "", 0 },
		{ "8/8 5700000000000000000000000000 X", "", 0 },
		{ "8/8 570.1 XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX", "", 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct gpu_report r = { 0 };
		char text[AGENT_VALUE];
		bool is_fine = gpu_report_parse(rows[i].text, &r);
		gpu_report_text(&r, text, sizeof(text));
		expect(is_fine == (!rows[i].again || *rows[i].again), rows[i].text);
		expect(str_eq(text, rows[i].again ? rows[i].again : rows[i].text), rows[i].text);
		expect(r.fault_count == rows[i].faults, rows[i].text);
	}
}

// The longest of everything has room in an annotation.
static void bounds(void **state)
{
	(void)state;
	char text[1024];
	struct gpu_report r = { .is_known = true, .is_measured = true, .works = UINT16_MAX, .count = UINT16_MAX }, back;
	memset(r.driver, '5', sizeof(r.driver) - 1);
	gpu_report_add_model(&r, "NVIDIA H100 <80GB> \"HBM3\" in a box that is far too large");
	gpu_report_add_model(&r, "one more");
	assert_string_equal(r.model, "NVIDIA-H100--80GB---HBM3--in-a-box-that");
	for (unsigned i = 0; i < 40; i++)
		gpu_report_add(&r, &(struct gpu_fault){ "ffff:ff:ff.ffff", GPU_FAULT_XID, 119, UINT16_MAX });
	gpu_report_text(&r, text, sizeof(text));
	assert_true(strlen(text) <= KEY_VALUE_MOST);
	assert_true(gpu_report_parse(text, &back));
	assert_memory_equal(&back, &r, sizeof(r));
	assert_int_equal(r.more, 36);
}

static void models(void **state)
{
	(void)state;
	struct gpu_report r = { 0 };
	static const char *const names[] = { "NVIDIA A2", "NVIDIA A2", "NVIDIA A2-16", "", "NVIDIA A2" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		gpu_report_add_model(&r, names[i]);
	assert_string_equal(r.model, "NVIDIA-A2,NVIDIA-A2-16");
}

static void blame(void **state)
{
	(void)state;
	static const struct {
		const char *fault;
		enum gpu_blame blame;
		bool is_broken;
	} rows[] = {
		{ "no-start", GPU_BLAMES_DRIVER, true },    { "no-answer", GPU_BLAMES_DRIVER, true },
		{ "no-compute", GPU_BLAMES_DRIVER, true },  { "hangs", GPU_BLAMES_HARDWARE, true },
		{ "reset-due", GPU_BLAMES_HARDWARE, true }, { "gone", GPU_BLAMES_HARDWARE, true },
		{ "xid119x1", GPU_BLAMES_DRIVER, false },   { "xid120x1", GPU_BLAMES_DRIVER, false },
		{ "xid143x1", GPU_BLAMES_DRIVER, false },   { "xid79x1", GPU_BLAMES_HARDWARE, true },
		{ "xid48x1", GPU_BLAMES_HARDWARE, false },  { "xid154x1", GPU_BLAMES_HARDWARE, true },
		{ "xid13x1", GPU_BLAMES_NOBODY, false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct gpu_report r;
		auto_str char *text = str_fmt("7/8 570.1 X " GPU "=%s", rows[i].fault);
		assert_true(gpu_report_parse(text, &r));
		const struct gpu_fault *worst = gpu_report_worst(&r, GPU_BLAMES_HARDWARE);
		expect((worst ? gpu_fault_blame(worst) : GPU_BLAMES_NOBODY) == rows[i].blame, rows[i].fault);
		expect((gpu_report_worst(&r, GPU_BLAMES_DRIVER) != NULL) == (rows[i].blame == GPU_BLAMES_DRIVER),
		       rows[i].fault);
		expect((gpu_report_broken(&r) != NULL) == rows[i].is_broken, rows[i].fault);
	}
	char object[GPU_FAULT_TEXT];
	struct gpu_report r;
	assert_true(gpu_report_parse("7/8 570.1 H100 " GPU "=xid119x1 0000:86:00.0=gone", &r));
	gpu_report_object(&r, gpu_report_worst(&r, GPU_BLAMES_HARDWARE), object);
	assert_string_equal(object, GPU " Xid 119, H100");
	gpu_report_object(&r, gpu_report_broken(&r), object);
	assert_string_equal(object, "0000:86:00.0 gone, H100");
}

// The agent's side: files of this boot and what the driver has, and no GPU is opened.

#define MEASURED(outcome, more)                                                                                   \
	"{\"boot_id\":\"" BOOT "\",\"driver\":\"570.1\",\"flavour\":\"open\"," more "\"gpus\":["                  \
	"{\"address\":\"0000:3b:00.0\",\"minor\":0,\"level\":\"answer\",\"outcome\":\"works\",\"name\":\"NVIDIA " \
	"A2\"},"                                                                                                  \
	"{\"address\":\"0000:86:00.0\",\"minor\":1,\"level\":\"start\",\"outcome\":\"" outcome "\"}]}"
#define XIDS(number, loaded)                                                                                       \
	"{\"boot_id\":\"" BOOT "\",\"next\":9,\"xids\":[{\"gpu\":\"0000:86:00.0\",\"xid\":" number ",\"count\":5," \
	"\"since_load\":" loaded "}]}"

static void from_a_node(void **state)
{
	(void)state;
	static const struct {
		const char *name, *measured, *xids, *want;
		bool is_gone;
	} rows[] = {
		{ "nothing was measured", NULL, NULL, "-/2 570.1 10de:25b6", false },
		{ "all work", MEASURED("works", ""), NULL, "2/2 570.1 NVIDIA-A2,10de:25b6", false },
		{ "one does not start", MEASURED("broken", ""), NULL,
		  "1/2 570.1 NVIDIA-A2,10de:25b6 0000:86:00.0=no-start", false },
		{ "as many as may be missing", MEASURED("broken", "\"allowed_missing\":1,"), NULL,
		  "1/2 570.1 NVIDIA-A2,10de:25b6", false },
		{ "a start that has not ended", MEASURED("pending", ""), NULL,
		  "1/2 570.1 NVIDIA-A2,10de:25b6 0000:86:00.0=hangs", false },
		{ "one that is left out", MEASURED("excluded", ""), NULL, "1/1 570.1 NVIDIA-A2,10de:25b6", false },
		{ "one left the bus", MEASURED("works", ""), NULL, "1/2 570.1 NVIDIA-A2,10de:25b6 0000:86:00.0=gone",
		  true },
		{ "an error since the load", MEASURED("works", ""), XIDS("119", "2"),
		  "2/2 570.1 NVIDIA-A2,10de:25b6 0000:86:00.0=xid119x2", false },
		{ "an error of the driver before", MEASURED("works", ""), XIDS("119", "0"),
		  "2/2 570.1 NVIDIA-A2,10de:25b6", false },
		{ "an application's error", MEASURED("works", ""), XIDS("31", "5"), "2/2 570.1 NVIDIA-A2,10de:25b6",
		  false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder f;
		char owner[] = "nvidia", boot[] = BOOT, version[] = "570.1";
		struct gpu gpus[] = { { .address = "0000:3b:00.0", .device = 0x25b6, .driver = owner },
				      { .address = "0000:86:00.0", .device = 0x25b6, .driver = owner } };
		const struct facts facts = { .host.boot_id = boot,
					     .gpus = { gpus, ARRAY_SIZE(gpus) },
					     .loaded = { .version = version, .flavour = MODULE_TYPE_OPEN } };
		struct gpu_report r;
		char text[AGENT_VALUE];
		folder_make(&f);
		tempdir_write(&f, "proc/driver/nvidia/gpus/0000:3b:00.0/information", "");
		if (!rows[i].is_gone)
			tempdir_write(&f, "proc/driver/nvidia/gpus/0000:86:00.0/information", "");
		if (rows[i].measured)
			tempdir_write(&f, "run/kmodsmith/gpus.json", rows[i].measured);
		if (rows[i].xids)
			tempdir_write(&f, "run/kmodsmith/xid.json", rows[i].xids);
		agent_read_gpus(&f.root, &f.root, &facts, &r);
		gpu_report_text(&r, text, sizeof(text));
		if (!str_eq(text, rows[i].want))
			fail_msg("%s: %s", rows[i].name, text);
	}
}

static void without_a_driver(void **state)
{
	(void)state;
	auto_folder struct folder f;
	char boot[] = BOOT;
	const struct facts facts = { .host.boot_id = boot };
	struct gpu_report r;
	char text[AGENT_VALUE] = "x";
	folder_make(&f);
	agent_read_gpus(&f.root, &f.root, &facts, &r);
	gpu_report_text(&r, text, sizeof(text));
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_and_written), cmocka_unit_test(bounds),
		cmocka_unit_test(models),           cmocka_unit_test(blame),
		cmocka_unit_test(from_a_node),      cmocka_unit_test(without_a_driver),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
