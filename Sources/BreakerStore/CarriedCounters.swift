internal import CHost

/// Taking counters along to another file.
extension CounterPage.Segment {
  /// Copies the counters of each breaker that has none in the other segment yet.
  func carryOver(to other: CounterPage.Segment) {
    let copy = CounterPage.Segment.copied(from: self)
    defer { unsafe copy.address.deallocate() }
    for index in 0..<CounterFile.breakersOfSegment {
      let (from, to) = (copy.counters(at: index), other.counters(at: index))
      guard from.key != 0, to.key == 0 else { continue }
      to.copy(from)
      // Last: whoever finds the key finds what it stands for.
      to.key = from.key
    }
  }

  /// A copy in the memory of this process.
  ///
  /// Made by the system: to read a mapping whose file was cut off would kill this process. What is
  /// cut off is zero in the copy.
  private static func copied(from segment: Self) -> Self {
    let copy = UnsafeMutableRawPointer.allocate(
      byteCount: CounterFile.bytesOfSegment, alignment: CounterFile.bytesOfCounters)
    unsafe copy.initializeMemory(as: UInt8.self, repeating: 0, count: CounterFile.bytesOfSegment)
    unsafe sb_copy_mapped(copy, segment.address, CounterFile.bytesOfSegment)
    return unsafe Self(address: copy)
  }
}
