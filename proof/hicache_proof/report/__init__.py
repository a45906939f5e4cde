"""What people read of a lab run: console, HTML, Markdown, JSON, certificate, trace. All made from a LabRun."""
