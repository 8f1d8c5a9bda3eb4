/* Goal: what the options of `cordon run` say about the network becomes the right layers, and
 * nothing in them can become more than a text. */
#include "cmd/run/run_policy.h"

#include <fcntl.h>

#include "support.h"

static void check_order(const char *name, const struct run_options *o, const char *want)
{
	struct buf b = BUF_INIT(1 << 20);
	struct err e = { 0 };

	CHECK(run_policy_write(o, &b, &e) == 0);
	if (strcmp(buf_text(&b), want) != 0)
		print_text("# got ", buf_text(&b));
	CHECK_CASE(name, strcmp(buf_text(&b), want) == 0);
	buf_release(&b);
}

#define NO_NODE "{\"layers\":[\"{\\\"version\\\":1,\\\"private\\\":[]}\","

static void is_wanted_only_if_asked_for(void)
{
	CHECK(!run_policy_is_wanted(&(struct run_options){ .net_log = "-" }));
	CHECK(run_policy_is_wanted(&(struct run_options){ .policy = "none" }));
	CHECK(run_policy_is_wanted(&(struct run_options){ .allow = { { "a" }, 1 } }));
	CHECK(run_policy_is_wanted(&(struct run_options){ .deny = { { "a" }, 1 } }));
}

static void options_are_one_document(void)
{
	check_order("deny, then allow, then presets",
		    &(struct run_options){ .allow = { { "a.example/x", "b.example:81" }, 2 },
					   .deny = { { "c.example", "10.0.0.0/8" }, 2 },
					   .policy = "pypi,npm" },
		    NO_NODE "\"\",\"{\\\"version\\\":1,\\\"rules\\\":["
			    "{\\\"host\\\":\\\"c.example\\\",\\\"action\\\":\\\"deny\\\"},"
			    "{\\\"cidr\\\":\\\"10.0.0.0/8\\\",\\\"action\\\":\\\"deny\\\"},"
			    "\\\"a.example/x\\\",\\\"b.example:81\\\"],"
			    "\\\"extends\\\":[\\\"pypi\\\",\\\"npm\\\"]}\"]}");
	check_order("private addresses are the node's",
		    &(struct run_options){ .allow = { { "a" }, 1 },
					   .allow_private = { { "127.0.0.1" }, 1 } },
		    "{\"layers\":[\"{\\\"version\\\":1,\\\"private\\\":[\\\"127.0.0.1\\\"]}\",\"\","
		    "\"{\\\"version\\\":1,\\\"rules\\\":[\\\"a\\\"]}\"]}");
	check_order("words stay words",
		    &(struct run_options){ .allow = { { "\"],\"private\":[\"::/0" }, 1 } },
		    NO_NODE "\"\",\"{\\\"version\\\":1,\\\"rules\\\":["
			    "\\\"\\\\\\\"],\\\\\\\"private\\\\\\\":[\\\\\\\"::/0\\\"]}\"]}");
}

static void a_file_comes_behind_the_options(void)
{
	char path[] = "/tmp/test_run_policy.XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);
	struct buf b = BUF_INIT(1 << 20);
	struct err e = { 0 };

	CHECK(fd >= 0 && write(fd, "{\"a\"}", 5) == 5);
	check_order("file", &(struct run_options){ .allow = { { "a" }, 1 }, .policy = path },
		    NO_NODE "\"{\\\"version\\\":1,\\\"rules\\\":[\\\"a\\\"]}\",\"{\\\"a\\\"}\"]}");
	(void)close(fd);
	(void)unlink(path);
	CHECK(run_policy_write(&(struct run_options){ .policy = path }, &b, &e) == -1);
	CHECK_HAS("a file that is not there", e.msg, path);
	buf_release(&b);
}

TEST_MAIN({ "is_wanted_only_if_asked_for", is_wanted_only_if_asked_for },
	  { "options_are_one_document", options_are_one_document },
	  { "a_file_comes_behind_the_options", a_file_comes_behind_the_options })
