internal import CSharedBreaker

/// What each code means, in a few words.
enum CodeText {
  static func of(_ code: sb_code) -> StaticString {
    switch code {
    case SB_OK: "done"
    case SB_REJECTED: "the breaker rejects the call"
    case SB_WOULD_BLOCK: "the answer takes waiting"
    case SB_OUTDATED: "the breaker has changed since the call began"
    case SB_REFUSED: "the permit is no longer good"
    case SB_NOT_FOUND: "there is no such breaker"
    case SB_NOTHING: "there is nothing to do now"
    case SB_UNTRIED: "the store has not been used yet"
    case SB_SKIPPED: "an entry has failed too often and is skipped"
    case SB_INTERRUPTED: "the wait was ended early"
    case SB_ERR_ARGUMENT: "an argument is not valid"
    case SB_ERR_CLOSED: "the store was closed"
    case SB_ERR_TEXT: "a text is not UTF-8"
    case SB_ERR_NAME: "the text cannot be the name of a breaker"
    case SB_ERR_POLICY: "the policy is not valid"
    case SB_ERR_TOKEN: "the text is no token"
    case SB_ERR_PROCESS: "there is no such process"
    case SB_ERR_SIZE: "a struct has an unknown size"
    case SB_ERR_PERMIT_USED: "the permit was used already, or never given"
    case SB_ERR_PERMIT_OTHER: "the permit was given by another breaker"
    case SB_ERR_PERMIT_LIVE: "the permit is still in use"
    case SB_ERR_FORKED: "it belongs to the process that this one was forked from"
    case SB_ERR_HOOK: "the hook has no entry, or still has one"
    case SB_ERR_RESOURCES: "the system has no memory or descriptor left"
    case SB_ERR_MISSING: "there is no store at the path"
    case SB_ERR_NOT_A_DIRECTORY: "the path leads through something that is not a directory"
    case SB_ERR_IS_DIRECTORY: "the path names a directory"
    case SB_ERR_SYMBOLIC_LINK: "the path names a symbolic link"
    case SB_ERR_PERMISSION: "this user may not use the file"
    case SB_ERR_READ_ONLY: "the file can be read but not written"
    case SB_ERR_DISK_FULL: "the disk is full"
    case SB_ERR_CORRUPT: "the file is damaged"
    case SB_ERR_NOT_A_STORE: "the file is not a store"
    case SB_ERR_NEWER_VERSION: "the file was written by a newer version"
    case SB_ERR_NETWORK_FILE_SYSTEM: "the file lies on a network file system"
    case SB_ERR_BUSY: "another process held the store for too long"
    case SB_ERR_IO: "the system could not read or write the file"
    case SB_ERR_TOO_MANY_BREAKERS: "the store has no room for more breakers"
    case SB_ERR_STORE: "the store cannot be used"
    default: "unknown code"
    }
  }
}
