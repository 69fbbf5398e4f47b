internal import CHiredis

/// Bounds on what an answer of a server may announce, so that none fills the memory of the relay.
///
/// The client library makes room for as many elements as an answer announces, before any of them has
/// arrived. These functions are called in place of its own.
enum AnswerBounds {
  /// How many elements an answer may have in total; a fleet's largest has a few hundred thousand.
  static let mostElements = 1_000_000

  /// How many bytes of an answer may have arrived before it is complete.
  static let mostBytes = 128 << 20

  /// Functions that make the objects of answers: the library's own, and those within the bounds.
  @safe private struct Makers: @unchecked Sendable {
    let usual: UnsafeMutablePointer<redisReplyObjectFunctions>
    let bounded: UnsafeMutablePointer<redisReplyObjectFunctions>
  }

  private static let makers: Makers? = {
    guard let reader = unsafe redisReaderCreate() else { return nil }
    defer { unsafe redisReaderFree(reader) }
    guard let usual = unsafe reader.pointee.fn else { return nil }
    let bounded = UnsafeMutablePointer<redisReplyObjectFunctions>.allocate(capacity: 1)
    unsafe bounded.initialize(to: usual.pointee)
    unsafe bounded.pointee.createArray = { task, count in
      guard let task = unsafe task, let left = unsafe task.pointee.privdata else { return nil }
      let elements = unsafe left.assumingMemoryBound(to: Int.self)
      unsafe elements.pointee -= Int(count)
      guard unsafe elements.pointee >= 0 else { return nil }
      return unsafe AnswerBounds.makers?.usual.pointee.createArray?(task, count)
    }
    return unsafe Makers(usual: usual, bounded: bounded)
  }()

  /// Bounds the answers of a connection's reader; `left` counts down the elements of an answer.
  ///
  /// - Returns: False if no memory is left.
  static func bound(
    _ reader: UnsafeMutablePointer<redisReader>, by left: UnsafeMutablePointer<Int>
  ) -> Bool {
    guard let makers else { return false }
    unsafe reader.pointee.fn = unsafe makers.bounded
    unsafe reader.pointee.privdata = UnsafeMutableRawPointer(left)
    return true
  }
}
