/* config_check.c - checks that concern more than one setting. */
#include "config.h"

#include <string.h>
#include <sys/un.h>

#include "addr.h"
#include "config_table.h"
#include "config_value.h"
#include "mask.h"

#define MEMORY_LEAST (4ULL << 20)
#define DISK_LEAST (64ULL << 10)

bool config_has_tls(const struct config *c)
{
	return c->tls_local || c->tls_cert[0] != '\0';
}

static int check_address(const struct config *c, struct err *e)
{
	struct addr address;

	if (c->listen[0] == '\0')
		return 0;
	if (addr_parse(c->listen, &address, e) < 0 || addr_is_unix(&address))
		return err_set(e, ERR_INVALID,
			       "listen: '%.60s' is not an address such as 127.0.0.1:4983 or "
			       "[::1]:4983; a Unix socket is set by unix_socket",
			       c->listen);
	if (addr_is_loopback(&address) || config_has_tls(c) || c->allow_remote_plain)
		return 0;
	return err_set(
		e, ERR_DENIED,
		"listen: %s can be reached from other machines without TLS: set tls_cert and "
		"tls_key, or tls_local = yes, or allow_remote_plain = yes",
		c->listen);
}

static int check_tls(const struct config *c, struct err *e)
{
	size_t n = strcspn(c->domain, ":");

	if ((c->tls_cert[0] == '\0') != (c->tls_key[0] == '\0'))
		return err_set(e, ERR_INVALID, "%s: must be set, too, because %s is",
			       c->tls_key[0] == '\0' ? "tls_key" : "tls_cert",
			       c->tls_key[0] == '\0' ? "tls_cert" : "tls_key");
	if (c->tls_local && c->tls_cert[0] != '\0')
		return err_set(e, ERR_INVALID, "tls_local: tls_cert is set, too; use one of them");
	/* OpenSSL, curl, node and browsers accept *.a.b, but not *.a. */
	if (c->tls_local && n > 0 && memchr(c->domain, '.', n) == NULL)
		return err_set(
			e, ERR_INVALID,
			"tls_local: clients accept no certificate for *.%.*s: domain needs a "
			"dot, such as cordon.%.*s",
			(int)n, c->domain, (int)n, c->domain);
	return 0;
}

static int check_listeners(const struct config *c, struct err *e)
{
	struct sockaddr_un un;

	if (c->listen[0] == '\0' && c->unix_socket[0] == '\0')
		return err_set(e, ERR_INVALID, "listen: listen and unix_socket are both empty");
	if (check_tls(c, e) < 0)
		return -1;
	if (strlen(c->unix_socket) >= sizeof(un.sun_path))
		return err_set(e, ERR_INVALID, "unix_socket: '%.40s...' is longer than %zu bytes",
			       c->unix_socket, sizeof(un.sun_path) - 1);
	return check_address(c, e);
}

static int check_order(const struct config *c, const char *lower, const char *upper,
		       bool zero_is_none, struct err *e)
{
	const struct config_setting *l = config_table_find(lower, strlen(lower));
	const struct config_setting *u = config_table_find(upper, strlen(upper));
	const uint64_t *low = (const void *)((const char *)c + l->offset);
	const uint64_t *high = (const void *)((const char *)c + u->offset);
	char low_text[CONFIG_VALUE_MAX], high_text[CONFIG_VALUE_MAX];

	if (*low <= *high || (zero_is_none && *high == 0))
		return 0;
	config_value_format(l, c, low_text, sizeof(low_text));
	config_value_format(u, c, high_text, sizeof(high_text));
	return err_set(e, ERR_INVALID, "%s: %.40s is more than %s, which is %.40s", lower, low_text,
		       upper, high_text);
}

static int check_patterns(const struct config *c, struct err *e)
{
	char text[sizeof(c->redact_patterns)], *rest = text, *word;

	memcpy(text, c->redact_patterns, sizeof(text));
	while ((word = strsep(&rest, " ")) != NULL)
		if (*word != '\0' && mask_pattern_check(word, e) < 0)
			return err_wrap(e, "redact_patterns");
	return 0;
}

static int check_aliases(const struct config *c, struct err *e)
{
	for (const char *at = c->image_alias; *at != '\0';) {
		size_t n = strcspn(at, ","), name = strcspn(at, "=,");

		if (name == 0 || name + 1 >= n)
			return err_set(e, ERR_INVALID, "image_alias: '%.*s' is not IMAGE=TEMPLATE",
				       (int)n, at);
		at += n + (at[n] == ',');
	}
	return 0;
}

/* A host of a reference has a dot or a port, or is localhost: else it would be a part of the path.
 */
static bool is_registry(const char *item, size_t n)
{
	if (n == 1 && item[0] == '*')
		return true;
	if (n > 2 && item[0] == '*' && item[1] == '.')
		item += 2, n -= 2;
	if (memchr(item, '/', n) != NULL || memchr(item, '*', n) != NULL)
		return false;
	return memchr(item, '.', n) != NULL || memchr(item, ':', n) != NULL ||
	       (n == 9 && strncmp(item, "localhost", n) == 0);
}

static bool is_mirror(const char *item, size_t n)
{
	static const char *const schemes[] = { "https://", "http://127.", "http://localhost",
					       "http://[::1]" };
	const char *eq = memchr(item, '=', n);
	size_t left = eq == NULL ? 0 : n - (size_t)(eq + 1 - item);

	for (size_t i = 0; i < COUNT(schemes) && eq != NULL && eq > item; i++)
		if (left > strlen(schemes[i]) - (i > 0) &&
		    strncmp(eq + 1, schemes[i], strlen(schemes[i])) == 0)
			return true;
	return false;
}

static int check_registries(const struct config *c, struct err *e)
{
	for (const char *at = c->registries; *(at += strspn(at, ", ")) != '\0';) {
		size_t n = strcspn(at, ", ");

		if (!is_registry(at, n))
			return err_set(e, ERR_INVALID,
				       "registries: '%.*s' is not *, *.DOMAIN, HOST or HOST:PORT",
				       (int)n, at);
		at += n;
	}
	for (const char *at = c->image_mirror; *(at += strspn(at, ", ")) != '\0';) {
		size_t n = strcspn(at, ", ");

		if (!is_mirror(at, n))
			return err_set(e, ERR_INVALID,
				       "image_mirror: '%.*s' is not HOST=https://... (http:// for "
				       "loopback only)",
				       (int)n, at);
		at += n;
	}
	return 0;
}

int config_check(const struct config *c, struct err *e)
{
	static const struct {
		const char *lower, *upper;
		bool zero_is_none;
	} pairs[] = {
		{ "memory_default", "memory_max", false },
		{ "cpus_default", "cpus_max", false },
		{ "pids_default", "pids_max", false },
		{ "disk_default", "disk_max", false },
		{ "storage_disk_default", "storage_disk_max", false },
		{ "persist_keep_default", "persist_keep_max", false },
		{ "inodes_default", "inodes_max", false },
		{ "nofile_default", "nofile_max", false },
		{ "session_timeout_default", "session_timeout_max", false },
		{ "exec_timeout_default", "exec_timeout_max", true },
		{ "output_limit_default", "output_limit_max", false },
		{ "pool_size", "pool_max", false },
		{ "memory_default", "node_max_memory", true },
		{ "memory_default", "tenant_max_memory", true },
		{ "disk_default", "tenant_max_storage", true },
	};

	if (c->memory_default > 0 && c->memory_default < MEMORY_LEAST)
		return err_set(e, ERR_INVALID, "memory_default: less than 4M, and not 0");
	if (c->disk_default > 0 && c->disk_default < DISK_LEAST)
		return err_set(e, ERR_INVALID, "disk_default: less than 64K, and not 0");
	for (size_t i = 0; i < COUNT(pairs); i++)
		if (check_order(c, pairs[i].lower, pairs[i].upper, pairs[i].zero_is_none, e) < 0)
			return -1;
	if (check_patterns(c, e) < 0 || check_aliases(c, e) < 0 || check_registries(c, e) < 0)
		return -1;
	if (!session_id_is_node(c->node_name))
		return err_set(e, ERR_INVALID,
			       "node_name: '%s' has other characters than a-z and 0-9",
			       c->node_name);
	return check_listeners(c, e);
}
