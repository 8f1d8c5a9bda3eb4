#include "lib/base/session_id.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/rand.h"

static_assert(1 + (SESSION_ID_NODE_MAX - 1) + RAND_ID_CHARS < SESSION_ID_MAX,
	      "the longest id fits");

static bool session_id_is_all_valid(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9')))
			return false;
	return true;
}

void session_id_make(const char *node, char ret_id[SESSION_ID_MAX])
{
	char prefix[1 + SESSION_ID_NODE_MAX];

	assert(session_id_is_node(node));
	(void)snprintf(prefix, sizeof(prefix), "i%s", node);
	rand_id(prefix, ret_id, SESSION_ID_MAX);
}

bool session_id_is_valid(const char *text, size_t n)
{
	return n > 0 && n < SESSION_ID_MAX && session_id_is_all_valid(text, n);
}

bool session_id_read(const char *text, size_t n, char ret_id[SESSION_ID_MAX])
{
	ret_id[0] = '\0';
	if (!session_id_is_valid(text, n))
		return false;
	memcpy(ret_id, text, n);
	ret_id[n] = '\0';
	return true;
}

bool session_id_is_node(const char *name)
{
	size_t n = strlen(name);

	return n < SESSION_ID_NODE_MAX && session_id_is_all_valid(name, n);
}
