#include "lib/policy/host.h"

#include <string.h>

/* RFC 1035, 2.3.4. */
#define LABEL_MAX 63

/* The byte in lower case, or 0 for a byte that no label may contain. */
static char label_byte(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_')
		return c;
	return '\0';
}

/* Could the label end an address? It has only digits (decimal or octal), or 0x and hex digits.
 * inet_aton() and similar functions would connect to such a name without a resolver. */
static bool is_number(const char *label)
{
	size_t n = strlen(label);

	if (strspn(label, "0123456789") == n)
		return true;
	return strncmp(label, "0x", 2) == 0 && 2 + strspn(label + 2, "0123456789abcdef") == n;
}

int host_normal(const char *text, size_t n, char ret[HOST_MAX])
{
	size_t label = 0; /* its offset */

	if (n > 0 && text[n - 1] == '.')
		n--;
	if (n == 0 || n >= HOST_MAX)
		return -1;
	for (size_t i = 0; i < n; i++) {
		ret[i] = text[i];
		if (ret[i] != '.')
			ret[i] = label_byte(text[i]);
		if (ret[i] == '\0')
			return -1;
		if (ret[i] == '.') {
			if (i == label)
				return -1;
			label = i + 1;
		} else if (i - label >= LABEL_MAX) {
			return -1;
		}
	}
	ret[n] = '\0';
	return label == n || is_number(ret + label) ? -1 : 0;
}

bool host_is_localhost(const char *host)
{
	static const char below[] = ".localhost";
	size_t n = strlen(host), tail = sizeof(below) - 1;

	return strcmp(host, below + 1) == 0 || (n > tail && strcmp(host + n - tail, below) == 0);
}

int host_pattern_read(const char *text, struct host_pattern *ret)
{
	*ret = (struct host_pattern){ 0 };
	if (strcmp(text, "*") == 0) {
		ret->any = true;
		return 0;
	}
	if (strncmp(text, "*.", 2) == 0) {
		ret->below = true;
		text += 2;
	}
	if (host_normal(text, strlen(text), ret->text) < 0)
		return -1;
	ret->n = strlen(ret->text);
	return 0;
}

bool host_pattern_fits(const struct host_pattern *p, const char *host, size_t n)
{
	if (p->any)
		return true;
	if (!p->below)
		return n == p->n && memcmp(host, p->text, n) == 0;
	return n > p->n + 1 && host[n - p->n - 1] == '.' &&
	       memcmp(host + n - p->n, p->text, p->n) == 0;
}
