# The flags of every debug build. SwiftPM compiles the whole package again for a compiler flag that the last build
# did not have, so all scripts that build for debugging read this:
#
#   source scripts/parts/flags.bash
debug=(--explicit-target-dependency-import-check error -Xswiftc -require-explicit-sendable)
