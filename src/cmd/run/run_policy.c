/* run_policy.c - theory of operation
 *
 * A policy has three layers, which cordon-egress merges. The user of `cordon run` is the operator
 * of the node, so the private addresses given on the command line are the first layer. --deny and
 * --allow are the second, and --policy, which may be a file that only cordon-egress can parse, is
 * the last. */
#include "cmd/run/run_policy.h"

#include <fcntl.h>
#include <string.h>

#include "lib/base/io.h"
#include "lib/base/ip.h"
#include "lib/json/json.h"
#include "lib/wire/egress_msg.h"

/* Of a policy file and of each document made here. */
#define FILE_MAX (1U << 20)

bool run_policy_is_wanted(const struct run_options *o)
{
	return o->allow.n > 0 || o->policy != NULL || o->deny.n > 0;
}

/* Presets are words. Anything else is a file. */
static bool is_file(const char *policy)
{
	return policy != NULL &&
	       policy[strspn(policy, "abcdefghijklmnopqrstuvwxyz0123456789-,")] != '\0';
}

static void write_rules(struct json *j, const struct run_options *o)
{
	struct ip_net net;

	json_open(j, "rules", '[');
	for (size_t i = 0; i < o->deny.n; i++) {
		const char *what = o->deny.items[i];
		bool address = ip_net_read(what, strlen(what), &net) == 0;

		json_open(j, NULL, '{');
		json_text(j, address ? "cidr" : "host", what);
		json_text(j, "action", "deny");
		json_close(j, '}');
	}
	for (size_t i = 0; i < o->allow.n; i++)
		json_text(j, NULL, o->allow.items[i]);
	json_close(j, ']');
}

/* The words are in the order of the command line. cordon-egress knows the presets. */
static void write_presets(struct json *j, const char *words)
{
	json_open(j, "extends", '[');
	while (*words != '\0') {
		size_t n = strcspn(words, ",");

		json_bytes(j, NULL, words, n);
		words += n + (words[n] == ',');
	}
	json_close(j, ']');
}

/* --deny and --allow as a document, with the presets of --policy unless that names a file. */
static void write_own(struct json *j, const struct run_options *o)
{
	json_open(j, NULL, '{');
	json_uint(j, "version", 1);
	write_rules(j, o);
	if (o->policy != NULL && !is_file(o->policy))
		write_presets(j, o->policy);
	json_close(j, '}');
}

/* The layer of the operator: only it can open private addresses. */
static void write_node(struct json *j, const struct run_options *o)
{
	json_open(j, NULL, '{');
	json_uint(j, "version", 1);
	json_open(j, "private", '[');
	for (size_t i = 0; i < o->allow_private.n; i++)
		json_text(j, NULL, o->allow_private.items[i]);
	json_close(j, ']');
	json_close(j, '}');
}

/* The caller frees *ret. The text is not parsed here, so that cordon-egress alone decides on its
 * form. */
static int read_file(const char *path, char **ret, struct err *e)
{
	OWN_MEM char *text = malloc(FILE_MAX);

	if (text == NULL)
		return err_sys(e, "--policy");
	if (io_read_file(AT_FDCWD, path, text, FILE_MAX, e) < 0)
		return err_wrap(e, "--policy");
	*ret = text;
	text = NULL;
	return 0;
}

/* Three layers in order: node, own options, --policy. Without a policy file the second layer is
 * empty, and the third has the options together with the presets. */
int run_policy_write(const struct run_options *o, struct buf *ret, struct err *e)
{
	OWN_MEM char *file = NULL;
	struct json node, own, all;
	bool ok;

	if (is_file(o->policy) && read_file(o->policy, &file, e) < 0)
		return -1;
	json_init_heap(&node, FILE_MAX);
	json_init_heap(&own, FILE_MAX);
	json_init_heap(&all, EGRESS_TEXT_MAX);
	write_node(&node, o);
	write_own(&own, o);
	json_open(&all, NULL, '{');
	json_open(&all, "layers", '[');
	json_text(&all, NULL, node.text);
	json_text(&all, NULL, file == NULL ? "" : own.text);
	json_text(&all, NULL, file == NULL ? own.text : file);
	json_close(&all, ']');
	json_close(&all, '}');
	ok = json_ok(&node) && json_ok(&own) && json_ok(&all);
	if (ok)
		buf_put(ret, all.text, all.len);
	json_release(&node);
	json_release(&own);
	json_release(&all);
	if (!ok)
		return err_set(e, ERR_LIMIT, "the policy is too large");
	return buf_check(ret, e);
}
