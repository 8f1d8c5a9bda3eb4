/* json_text.h - JSON in a C source as it is read: JSON_TEXT({"type": "object"}) is that text as a
 * string, on one line. A text in it must be one literal, without backslashes. */
#pragma once

#define JSON_TEXT(...) #__VA_ARGS__
