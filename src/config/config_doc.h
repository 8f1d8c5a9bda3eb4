/* config_doc.h - writes the table of settings as help (cordon serve --help) and as
 * doc/configuration.md. */
#pragma once

#include <stdio.h>

void config_doc_help(FILE *to);	    /* one line for each, as options */
void config_doc_markdown(FILE *to); /* the whole of doc/configuration.md */
