import ControlKit
import Glibc
import Testing

/// Files beside the tests that hold the expected output.
///
/// With `RECORD_SNAPSHOTS=1` in the environment the tests write these files instead of comparing.
/// In the files, `VERSION` stands for the version, so that a release changes none of them.
enum Golden {
  static func expect(
    _ text: String, _ name: String, location: SourceLocation = #_sourceLocation
  ) {
    let folder = #filePath.split(separator: "/").dropLast().joined(separator: "/")
    let path = "/\(folder)/Snapshots/\(name)"
    let text = text.replacing(ControlKit.version, with: "VERSION")
    if unsafe getenv("RECORD_SNAPSHOTS").map({ unsafe String(cString: $0) }) == "1" {
      write(text, to: path)
    } else {
      #expect(text == read(path), "RECORD_SNAPSHOTS=1 writes it again", sourceLocation: location)
    }
  }

  static func read(_ path: String) -> String? {
    guard let file = unsafe fopen(path, "r") else { return nil }
    defer { unsafe fclose(file) }
    var bytes: [UInt8] = []
    while case let byte = unsafe fgetc(file), byte != EOF { bytes.append(UInt8(byte)) }
    return String(decoding: bytes, as: UTF8.self)
  }

  static func write(_ text: String, to path: String) {
    guard let file = unsafe fopen(path, "w") else {
      Issue.record("\(path) cannot be written")
      return
    }
    unsafe fputs(text, file)
    unsafe fclose(file)
  }
}
