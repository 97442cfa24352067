#!/bin/bash
id -un > /app/answer
