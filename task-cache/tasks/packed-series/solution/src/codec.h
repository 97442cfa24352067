#ifndef CODEC_H
#define CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that grow. */
struct buffer {
    unsigned char *data;
    size_t used, room;
};

void buffer_put(struct buffer *b, unsigned char byte);
void buffer_read_stdin(struct buffer *b);
void buffer_free(struct buffer *b);

/* A series; a missing value has present[i] == false. */
struct series {
    int64_t *value;
    bool *present;
    size_t count, room;
};

void series_add(struct series *s, bool present, int64_t value);
void series_free(struct series *s);

/* These give NULL, or say what is wrong with the input. */
const char *text_parse(struct series *s, const struct buffer *text);
const char *packed_parse(struct series *s, const struct buffer *packed);

void packed_write(const struct series *s, struct buffer *packed);
uint32_t crc32_of(const unsigned char *data, size_t length);

#endif
