internal import Glibc

extension StoreError {
  static func kind(ofErrno code: Int32) -> Kind {
    switch code {
    case ENOENT: .missing
    case ENOTDIR: .notADirectory
    case EISDIR: .isDirectory
    case ELOOP: .isSymbolicLink
    case EACCES, EPERM: .permissionDenied
    case EROFS: .readOnly
    case ENOSPC, EDQUOT: .diskFull
    case EIO: .inputOutput
    default: .other
    }
  }

  static func systemMessage(_ code: Int32) -> String {
    switch code {
    case ENOENT: "there is no such file or directory"
    case ENOTDIR: "a part of the path is not a directory"
    case EISDIR: "it is a directory"
    case ELOOP: "it is a symbolic link, which is never followed"
    case EILSEQ: "the path is not UTF-8"
    default: unsafe String(cString: strerror(code)).lowercased()
    }
  }

  /// What to do if a limit of this process is in the way; empty if none is.
  static func limitAdvice(_ code: Int32) -> String {
    switch code {
    case EMFILE: ": raise 'ulimit -n'"
    case EFBIG: ": raise 'ulimit -f'"
    default: ""
    }
  }
}
