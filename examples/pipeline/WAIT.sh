#!/bin/bash
# Nothing runs while a join waits; Raymond continues at MERGE once every worker has ended.
echo "<join>MERGE</join>"
