/// A byte of the log that a process locks to tell others something while it has the store open.
///
/// The byte lies far beyond the end of the file. Every process of the host sees the locks, in every
/// PID namespace, with or without `/proc`, and on every local file system. The kernel releases a
/// lock when its holder ends.
enum LogMark: Hashable {
  /// The log is in use with this file.
  case file(FileIdentity)

  /// A process has agreed with the store that this is the current boot.
  case boot(Int64)

  /// Where the marks of boots begin; those of files come before them.
  static let boots: Int64 = 1 << 62

  var byte: Int64 {
    switch self {
    case .file(let identity):
      let mixed =
        identity.inode &* 0x9E37_79B9_7F4A_7C15 ^ identity.device &* 0xC2B2_AE3D_27D4_EB4F
      return Int64(bitPattern: mixed & UInt64(Self.boots - 1))
    case .boot(let number):
      // The last byte of the range cannot be locked.
      return Self.boots + Int64(bitPattern: UInt64(bitPattern: number) % UInt64(Self.boots - 1))
    }
  }
}
