"""What people and programs read: terminal tables and JSON documents."""
