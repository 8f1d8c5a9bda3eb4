/* link_proof.h - cordond and mcp-gateway show each other that they know a token, before the first
 * message of a connection between them. Pure but for random numbers.
 *
 *	cordond:	NONCE
 *	mcp-gateway:	PROOF of 'g' and NONCE, a space, NONCE
 *	cordond:	PROOF of 'c' and the second NONCE
 *
 * One line each. A program of the cell that listens in the gateway's place, or connects to it,
 * learns nothing that it can use. The token is one execution's of the gateway. Only root's
 * processes of the cell can read it. */
#pragma once

#include <stdbool.h>

#define LINK_TOKEN_VAR "CORDON_MCP_LINK_TOKEN" /* in the environment of mcp-gateway */
#define LINK_WORD 64			       /* characters of a token, a nonce, a proof */

/* A token or a nonce. */
void link_random(char ret[LINK_WORD + 1]);
void link_proof(const char *token, char who, const char nonce[LINK_WORD], char ret[LINK_WORD + 1]);
/* Take the same time wherever the words differ. */
bool link_same(const char a[LINK_WORD], const char b[LINK_WORD]);
