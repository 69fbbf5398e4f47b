internal import Glibc

/// Who may read and write a file.
struct FileRights: Hashable {
  var mode: UInt32
  var user: UInt32
  var group: UInt32

  /// An owner or a group that stays as the system set it (chown(2)).
  static let unchanged = UInt32.max

  /// The same rights, reduced so that each user may both read and write the file, or neither.
  ///
  /// A user who may only read a file can still lock it, and so block those who write.
  var ofUsers: FileRights {
    var rights = self
    rights.mode = mode & 0o666 | 0o600
    for shift: UInt32 in [3, 0] where rights.mode >> shift & 0o6 != 0o6 {
      rights.mode &= ~(0o6 << shift)
    }
    return rights
  }

  /// The mode as `chmod` takes it.
  var octal: String { String(mode, radix: 8) }

  var isGroupWritable: Bool { mode & 0o060 == 0o060 }
  var isWritableForAll: Bool { mode & 0o006 == 0o006 }
}

extension FileRights {
  /// Gives an open file these rights.
  func give(to descriptor: Int32, at path: String) throws(StoreError) {
    guard giveOwners(to: descriptor) else {
      throw StoreError(errno: errno, doing: "change the group of", path: path)
    }
    guard fchmod(descriptor, mode & 0o777) == 0 else {
      throw StoreError(errno: errno, doing: "change the mode of", path: path)
    }
  }

  /// Gives an open file those of these rights that this user may give.
  ///
  /// If the group cannot be set, no group gets rights: they are not meant for another group.
  func giveWhatIsAllowed(to descriptor: Int32) {
    fchmod(descriptor, mode & (giveOwners(to: descriptor) ? 0o777 : 0o707))
  }

  private func giveOwners(to descriptor: Int32) -> Bool {
    // Only root can give a file to another user. A member of the group can still share it.
    fchown(descriptor, user, group) == 0 || fchown(descriptor, Self.unchanged, group) == 0
  }
}
