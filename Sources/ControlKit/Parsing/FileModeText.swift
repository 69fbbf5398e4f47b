/// The permissions of a store's files: users who may read them must also be able to write.
enum FileModeText {
  static func parse(_ text: String) throws(ValueComplaint) -> Int64 {
    let form = ValueKind.fileMode.form
    let mode = try parsePlain(text, form: form)
    guard mode & 0o111 == 0 else {
      throw ValueComplaint("the files of a store cannot be executable", form)
    }
    guard mode & 0o600 == 0o600 else {
      throw ValueComplaint("the owner must be able to read and write", form)
    }
    for (who, shift, example) in [("the group", 3, "660"), ("others", 0, "666")] {
      let bits = mode >> Int64(shift) & 0o6
      if bits == 0o4 { throw ValueComplaint("\(who) must be able to write too", "use \(example)") }
      if bits == 0o2 { throw ValueComplaint("\(who) must be able to read too", "use \(example)") }
    }
    return mode
  }

  /// The permissions of any file.
  static func parsePlain(_ text: String, form: String) throws(ValueComplaint) -> Int64 {
    guard text.utf8.allSatisfy({ (0x30...0x37).contains($0) }), let mode = Int64(text, radix: 8),
      mode <= 0o777
    else { throw ValueComplaint("it is not a mode", form) }
    return mode
  }
}
