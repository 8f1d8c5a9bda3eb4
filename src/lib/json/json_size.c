#include "lib/json/json_size.h"

/* Only brackets, commas and quotes count, in one pass without a stack. Text that is no JSON may be
 * counted wrongly, and the parser refuses it afterwards. */
bool json_size_fits(const char *text, size_t len, unsigned max_depth, size_t max_values)
{
	unsigned depth = 0;
	size_t values = 1; /* each bracket and each comma begins one more at most */
	bool quoted = false;

	for (size_t i = 0; i < len; i++) {
		if (quoted && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			quoted = !quoted;
		else if (quoted)
			continue;
		else if (text[i] == '{' || text[i] == '[')
			depth++, values++;
		else if ((text[i] == '}' || text[i] == ']') && depth > 0)
			depth--;
		else if (text[i] == ',')
			values++;
		if (depth > max_depth || values > max_values)
			return false;
	}
	return true;
}
