#include "codec.h"

uint32_t crc32_of(const unsigned char *data, size_t length)
{
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < length; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    return ~crc;
}
