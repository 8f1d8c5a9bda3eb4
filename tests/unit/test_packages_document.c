/* Goal: a packages member means what its author wrote, or the error names the place. */
#include "package_policy.h"

static void errors_name_the_place(void)
{
	CHECK(fails_with("[]", "packages: must be an object"));
	CHECK(fails_with("{\"regs\":[]}", "packages: unknown member 'regs'"));
	CHECK(fails_with("{\"mode\":\"shut\"}", "packages.mode: must be one of: open, pinned"));
	CHECK(fails_with("{\"min_age\":7}", "packages.min_age: must be a time"));
	CHECK(fails_with("{\"min_age\":\"7 days\"}", "packages.min_age: must be a time"));
	CHECK(fails_with("{\"bytes\":\"much\"}", "packages.bytes: must be a size"));
	CHECK(fails_with("{\"file_bytes\":0}", "packages.file_bytes: must be a size"));
	CHECK(fails_with("{\"new_names\":0}", "packages.new_names: must be"));
	CHECK(fails_with("{\"deny\":\"npm:a\"}", "packages.deny: must be a list"));
	CHECK(fails_with("{\"deny\":[\"npm:a\",\"left-pad\"]}", "packages.deny[1]: must be ECO"));
	CHECK(fails_with("{\"deny\":[\"nuget:a\"]}", "packages.deny[0]"));
	CHECK(fails_with("{\"allow\":[\"npm:a b\"]}", "packages.allow[0]"));
	CHECK(fails_with("{\"allow\":[\"npm:**\"]}", "packages.allow[0]"));
	CHECK(fails_with("{\"own\":[\"npm:\"]}", "packages.own[0]"));
	CHECK(fails_with("{\"min_age_except\":[\"npm:a\"]}", "has no effect without min_age"));
	CHECK(fails_with("{\"scripts_except\":[\"npm:a\"]}", "has no effect if scripts"));
	CHECK(fails_with("{\"scripts\":\"no\"}", "packages.scripts: must be one of: allow, ask"));
	CHECK(fails_with("{\"search\":true}", "packages.search: must be one of: deny, allow"));
	CHECK(fails_with("{\"registries\":[\"nexus\"]}",
			 "packages.registries[0]: there is no registry 'nexus'"));
	CHECK(fails_with("{\"registries\":[\"npm\",\"npm\"]}", "registries[1]: is listed twice"));
	CHECK(fails_with("{\"registries\":[{\"ecosystem\":\"npm\"}]}",
			 "packages.registries[0].host: is missing"));
	CHECK(fails_with("{\"registries\":[{\"ecosystem\":\"rpm\",\"host\":\"a.test\"}]}",
			 "packages.registries[0].ecosystem: must be one of"));
	CHECK(fails_with("{\"registries\":[{\"ecosystem\":\"npm\",\"host\":\"1.2.3.4\"}]}",
			 "packages.registries[0].host: '1.2.3.4' is an address: give it a name"));
	CHECK(fails_with("{\"registries\":[{\"ecosystem\":\"npm\",\"host\":\"a.test:0\"}]}",
			 "is not HOST or HOST:PORT"));
	CHECK(fails_with("{\"registries\":[{\"ecosystem\":\"npm\",\"host\":\"a.test\","
			 "\"path\":\"x\"}]}",
			 "packages.registries[0].path"));
	CHECK(fails_with("{\"registries\":[{\"use\":\"npm\",\"host\":\"a.test\"}]}",
			 "packages.registries[0]: unknown member 'host'"));
}

static void errors_of_pins(void)
{
	CHECK(fails_with("{\"pins\":[]}", "packages.pins: must be an object"));
	CHECK(fails_with("{\"pins\":{\"requests\":[]}}", "packages.pins.requests: must be ECO"));
	CHECK(fails_with("{\"pins\":{\"npm:a@1\":[]}}", "packages.pins.npm:a@1: must be ECO"));
	CHECK(fails_with("{\"pins\":{\"npm:*\":[]}}", "packages.pins.npm:*: must be ECO"));
	CHECK(fails_with("{\"pins\":{\"npm:a\":\"1\"}}", "must be a list of versions"));
	CHECK(fails_with("{\"pins\":{\"npm:a\":[\"\"]}}", "does not begin with a version"));
	CHECK(fails_with("{\"pins\":{\"npm:a\":[\"1.0 md5:aa\"]}}", "is not a digest"));
	CHECK(fails_with("{\"pins\":{\"npm:a\":[\"1.0 "
			 "sha1:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"]}}",
			 "is too weak"));
}

TEST_MAIN({ "errors_name_the_place", errors_name_the_place }, { "errors_of_pins", errors_of_pins })
