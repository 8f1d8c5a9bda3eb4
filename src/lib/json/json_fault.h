/* json_fault.h - removes the quoted input from an error message of the JSON parser: the input may
 * hold a secret, and errors are logged. Line and column are in the parser's json_error_t. Pure. */
#pragma once

#include <stddef.h>
#include <string.h>

/* Cut text (json_error_t.text) in place and return it. */
static inline const char *json_fault(char *text)
{
	static const char *const quotes[] = { " near ", " 0x", " escape '", " Unicode '" };

	for (size_t i = 0; i < sizeof(quotes) / sizeof(quotes[0]); i++) {
		char *at = strstr(text, quotes[i]);

		if (at != NULL)
			*at = '\0';
	}
	return text;
}
