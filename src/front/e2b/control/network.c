/* network.c - theory of operation
 *
 * Every member is checked in full before it is kept, so that readers of a row need not check it
 * again. Members outside the contract are left out of the row. */
#include "front/e2b/control/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/e2b/control/netname.h"
#include "front/web/json_members.h"
#include "lib/base/str.h"

/* Bounds of the members. Requests beyond them are refused with the member's name. */
#define ENTRIES_MAX 512
#define PORTS_MAX 128
#define ENVD_PORT 49983
#define RULES_MAX 10
#define RULE_NAME_MAX 128
#define HEADERS_MAX 20
#define HEADER_NAME_MAX 64
#define HEADER_VALUE_MAX 2048
#define CREDENTIAL_MAX 255 /* of SOCKS5 */
#define EVERYTHING "0.0.0.0/0"
#define PASSWORD "password"
#define INTERNET "allowInternetAccess"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* ---- the members
 *
 * Each reader checks one member and adds it to kept, the object for the row. The first mistake
 * makes m fail, and nothing is kept from then on. */

/* A token of RFC 9110. */
static bool is_header_name(const char *text)
{
	size_t n = strlen(text);

	return n > 0 && n <= HEADER_NAME_MAX && strspn(text, LETTERS DIGITS "!#$%&'*+-.^_`|~") == n;
}

/* No control characters but tabs, so no value can begin another header. */
static bool is_header_value(const char *text)
{
	if (strlen(text) > HEADER_VALUE_MAX)
		return false;
	for (; *text != '\0'; text++)
		if (((unsigned char)*text < 0x20 && *text != '\t') || *text == 0x7f)
			return false;
	return true;
}

/* value may be NULL: then the member was absent. */
static void network_keep(struct json_members *m, json_t *kept, const char *name, json_t *value)
{
	if (!m->failed && value != NULL && json_object_set(kept, name, value) < 0)
		(void)json_members_fail(m, name, "out of memory");
}

/* The entry is cut in the message. */
static int refuse_entry(struct json_members *m, const char *name, const char *entry,
			const char *why)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "'%.60s' is not %s", entry, why);
	return json_members_fail(m, name, text);
}

/* Allowed or denied destinations. names: domains are allowed. *ret_names: there is one. */
static json_t *read_entries(struct json_members *m, const char *name, bool names, bool *ret_names)
{
	json_t *list = json_members_array(m, name, ENTRIES_MAX);

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++) {
		const char *entry = json_string_value(json_array_get(list, i));

		if (entry == NULL) {
			(void)json_members_fail(m, name, "must be an array of strings");
			return NULL;
		}
		if (netname_is_address(entry))
			continue;
		if (!names || !netname_is_name(entry, NETNAME_MAX)) {
			(void)refuse_entry(m, name, entry,
					   names ? "an address, a CIDR block or a domain"
						 : "an address or a CIDR block");
			return NULL;
		}
		*ret_names = true;
	}
	return list;
}

/* "ALL_TRAFFIC" in clients' words. */
static bool holds_everything(const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(json_string_value(json_array_get(list, i)), EVERYTHING) == 0)
			return true;
	return false;
}

/* Only the known members are kept. */
static void read_proxy(struct json_members *m, json_t *kept)
{
	json_t *object = json_members_object(m, "egressProxy", JSON_MEMBERS_MAX), *clean;
	const char *address = NULL, *user = NULL, *password = NULL;
	struct json_members in;

	if (object == NULL)
		return;
	json_members_begin(&in, object, "network.egressProxy", m->e);
	json_members_text(&in, "address", NETNAME_MAX + 8, &address);
	json_members_text(&in, "username", CREDENTIAL_MAX, &user);
	json_members_text(&in, PASSWORD, CREDENTIAL_MAX, &password);
	if (address == NULL || !netname_is_endpoint(address))
		(void)json_members_fail(&in, "address", "must be host:port of a SOCKS5 proxy");
	if (password != NULL && user == NULL)
		(void)json_members_fail(&in, PASSWORD, "needs a username");
	if (json_members_end_lenient(&in) < 0) {
		m->failed = true;
		return;
	}
	clean = json_pack("{s:s, s:s*, s:s*}", "address", address, "username", user, PASSWORD,
			  password);
	if (clean == NULL)
		(void)json_members_fail(m, "egressProxy", "out of memory");
	network_keep(m, kept, "egressProxy", clean);
	json_decref(clean);
}

/* [{"transform": {"headers": {name: value}}}], at most one of them. */
static bool is_rule(const json_t *list)
{
	json_t *first = json_array_get(list, 0), *transform, *headers, *value;
	const char *name;

	if (!json_is_array(list) || json_array_size(list) > 1)
		return false;
	if (first == NULL)
		return true;
	if (!json_is_object(first))
		return false;
	transform = json_object_get(first, "transform");
	if (transform == NULL)
		return true;
	headers = json_object_get(transform, "headers");
	if (!json_is_object(transform) || (headers != NULL && !json_is_object(headers)) ||
	    json_object_size(headers) > HEADERS_MAX)
		return false;
	json_object_foreach(headers, name, value)
	{
		if (!is_header_name(name) || !json_is_string(value) ||
		    !is_header_value(json_string_value(value)))
			return false;
	}
	return true;
}

/* The object is kept whole, since all of it was checked. */
static void read_rules(struct json_members *m, json_t *kept)
{
	json_t *rules = json_members_object(m, "rules", RULES_MAX), *list;
	const char *host;

	if (rules == NULL)
		return;
	json_object_foreach(rules, host, list)
	{
		if (!netname_is_name(host, RULE_NAME_MAX) && !netname_is_address(host)) {
			(void)refuse_entry(m, "rules", host, "a domain of at most 128 characters");
			return;
		}
		if (!is_rule(list)) {
			(void)json_members_fail(m, "rules",
						"each host must have one transform with at most 20 "
						"valid headers");
			return;
		}
	}
	network_keep(m, kept, "rules", rules);
}

/* The outbound rules. */
static void read_egress(struct json_members *m, enum network_internet internet, json_t *kept)
{
	bool names = false;
	json_t *allow = read_entries(m, "allowOut", true, &names);
	json_t *deny = read_entries(m, "denyOut", false, &names);

	if (!m->failed && names && internet != NETWORK_NO && !holds_everything(deny)) {
		m->failed = true;
		(void)err_set(m->e, ERR_INVALID,
			      "When specifying allowed domains in allow out, you must include "
			      "'ALL_TRAFFIC' in deny out to block all other traffic.");
	}
	network_keep(m, kept, "allowOut", allow);
	network_keep(m, kept, "denyOut", deny);
	read_proxy(m, kept);
	read_rules(m, kept);
	if (internet != NETWORK_UNSET)
		network_keep(m, kept, INTERNET,
			     internet == NETWORK_YES ? json_true() : json_false());
}

/* envd's port is refused. */
static void read_ports(struct json_members *m, json_t *kept)
{
	json_t *list = json_members_array(m, "httpsPorts", PORTS_MAX);

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++) {
		json_t *port = json_array_get(list, i);

		if (!json_is_integer(port) || json_integer_value(port) < 1 ||
		    json_integer_value(port) > 65535 || json_integer_value(port) == ENVD_PORT) {
			(void)json_members_fail(m, "httpsPorts",
						"must be ports from 1 to 65535, and not 49983");
			return;
		}
		for (size_t k = 0; k < i; k++)
			if (json_equal(json_array_get(list, k), port)) {
				(void)json_members_fail(m, "httpsPorts", "has the same port twice");
				return;
			}
	}
	network_keep(m, kept, "httpsPorts", list);
}

/* Access to ports of the sandbox. */
static void read_ingress(struct json_members *m, struct network *ret, json_t *kept)
{
	const char *mask = NULL;
	json_t *given = json_object_get(m->object, "allowPublicTraffic");

	json_members_bool(m, "allowPublicTraffic", &ret->public_traffic);
	if (json_is_boolean(given))
		network_keep(m, kept, "allowPublicTraffic", given);
	json_members_text(m, "maskRequestHost", NETWORK_HOST_MAX - 1, &mask);
	if (mask != NULL && !netname_is_host(mask))
		(void)json_members_fail(m, "maskRequestHost", "must be a host, or host:${PORT}");
	if (mask != NULL && !m->failed) {
		str_copy(ret->mask_host, mask);
		network_keep(m, kept, "maskRequestHost",
			     json_object_get(m->object, "maskRequestHost"));
	}
	read_ports(m, kept);
}

/* Take kept over. */
static int write_text(json_t *kept, char **ret, struct err *e)
{
	*ret = json_object_size(kept) == 0 ? strdup("") : json_dumps(kept, JSON_COMPACT);
	json_decref(kept);
	return *ret == NULL ? err_set(e, ERR_SYSTEM, "network: out of memory") : 0;
}

/* NULL is as an empty object. */
int network_read(json_t *network, enum network_internet internet, struct network *ret,
		 struct err *e)
{
	json_t *kept = json_object(), *empty = json_object();
	struct json_members m;
	int read;

	*ret = (struct network){ .public_traffic = true };
	json_members_begin(&m, network == NULL ? empty : network, "network", e);
	if (!json_is_object(m.object)) {
		read = err_set(e, ERR_INVALID, "network: must be an object");
	} else {
		read_egress(&m, internet, kept);
		read_ingress(&m, ret, kept);
		read = json_members_end_lenient(&m);
	}
	json_decref(empty);
	if (read == 0)
		return write_text(kept, &ret->text, e);
	json_decref(kept);
	return read;
}

void network_release(struct network *n)
{
	free(n->text);
	n->text = NULL;
}

/* before is the row's text, written by write_text(). */
int network_update(const char *before, json_t *update, char **ret, struct err *e)
{
	static const char *const stays[] = { "allowPublicTraffic", "maskRequestHost",
					     "httpsPorts" };
	json_t *old = json_loads(before, 0, NULL), *kept = json_object();
	enum network_internet internet = NETWORK_UNSET;
	bool allowed = true;
	struct json_members m;

	*ret = NULL;
	json_members_begin(&m, update, "", e);
	for (size_t i = 0; i < COUNT(stays); i++)
		network_keep(&m, kept, stays[i], json_object_get(old, stays[i]));
	json_decref(old);
	json_members_bool(&m, "allow_internet_access", &allowed);
	if (json_is_boolean(json_object_get(update, "allow_internet_access")))
		internet = allowed ? NETWORK_YES : NETWORK_NO;
	read_egress(&m, internet, kept);
	if (json_members_end_lenient(&m) == 0)
		return write_text(kept, ret, e);
	json_decref(kept);
	return -1;
}

/* The password of a proxy is taken out first. */
void network_shape(struct json *j, const char *text)
{
	json_t *root = json_loads(text, 0, NULL), *internet = json_object_get(root, INTERNET);
	char *written;

	if (internet == NULL)
		json_none(j, INTERNET);
	else
		json_bool(j, INTERNET, json_is_true(internet));
	IGNORED(json_object_del(root, INTERNET), "maybe it is not there");
	IGNORED(json_object_del(json_object_get(root, "egressProxy"), PASSWORD), "the same");
	written = json_object_size(root) == 0 ? NULL : json_dumps(root, JSON_COMPACT);
	if (written != NULL)
		json_raw(j, "network", written);
	free(written);
	json_decref(root);
}
