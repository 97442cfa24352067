#!/bin/bash
env > /app/answer
