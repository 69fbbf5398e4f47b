import Glibc

/// The groups of this host.
enum HostGroup {
  /// The number of a group, by its name; nil if there is none.
  static func number(of name: String) -> gid_t? {
    guard let entry = unsafe getgrnam(name) else { return nil }
    return unsafe entry.pointee.gr_gid
  }

  /// The name of a group, by its name or its number; nil if there is none.
  static func name(of text: String) -> String? {
    // A name can consist of digits, so names come first.
    if number(of: text) != nil { return text }
    guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = gid_t(text),
      let entry = unsafe getgrgid(number), let name = unsafe entry.pointee.gr_name
    else { return nil }
    return unsafe String(cString: name)
  }
}
