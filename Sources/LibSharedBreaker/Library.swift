internal import BreakerStore
internal import CSharedBreaker
internal import Glibc
internal import SharedBreaker

/// The library's version, as text that stays where it is.
///
/// Unchecked because nothing ever changes or frees it.
@safe private struct LastingText: @unchecked Sendable {
  let start: UnsafePointer<CChar>

  init(_ text: String) {
    unsafe start = text.withCString { unsafe UnsafePointer(strdup($0)) } ?? CText.constant("")
  }

  static let version = LastingText(SharedStore.version)
  static let sqliteVersion = LastingText(SharedStore.sqliteVersion)
}

@c @implementation
package func sb_version() -> UnsafePointer<CChar>? { unsafe LastingText.version.start }

@c @implementation
package func sb_abi_version() -> CInt { SB_ABI_VERSION }

@c @implementation
package func sb_sqlite_version() -> UnsafePointer<CChar>? {
  unsafe LastingText.sqliteVersion.start
}

@c @implementation
package func sb_code_text(_ code: CInt) -> UnsafePointer<CChar>? {
  unsafe CText.constant(CodeText.of(sb_code(rawValue: code)))
}

@c @implementation
package func sb_error_text() -> UnsafePointer<CChar>? { unsafe ErrorText.current }

@c @implementation
package func sb_interruptible(
  _ is_over: (@convention(c) (UnsafeMutableRawPointer?) -> CInt)?,
  _ context: UnsafeMutableRawPointer?
) { unsafe Patience.ask(is_over, context) }

@c @implementation
package func sb_free(_ text: UnsafeMutableRawPointer?) { unsafe free(text) }
